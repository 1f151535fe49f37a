"""The links' motion of one sample, with what points and forces on links need."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model import Model, Topology
from ._links import LinkMotion, motion_of

Point = Float[Array, " 3"]


class Motion(eqx.Module):
    """Motion of all links at one (q, q̇). Link or body -1 is the ground, which stands still."""

    q: Float[Array, " nq"]
    qd: Float[Array, " nq"]
    f: Float[Array, " nj"]
    fd: Float[Array, " nj"]
    jacobian: Float[Array, "nj nq"]
    transform: Float[Array, "nj 3 4"]
    origin: Float[Array, " 3"]
    screw: Float[Array, "nj 6"]
    velocity: Float[Array, "nj 6"]
    acceleration: Float[Array, "nj 6"]
    bodies: Float[Array, "nb 3 4"]
    """Body frames in their links' frames."""
    topology: Topology = eqx.field(static=True)

    @staticmethod
    def of_sample(motion: LinkMotion) -> "Motion":
        """From a motion whose lane axis was taken off, by indexing or by vmap."""
        return Motion(
            q=motion.q,
            qd=motion.qd,
            f=motion.f,
            fd=motion.fd,
            jacobian=motion.jacobian,
            transform=motion.transform,
            origin=motion.origin[0],
            screw=motion.screw,
            velocity=motion.velocity,
            acceleration=motion.acceleration,
            bodies=motion.bodies,
            topology=motion.topology,
        )

    @staticmethod
    def of_lane(motion: LinkMotion) -> "Motion":
        """The only lane of a motion."""
        return Motion.of_sample(jax.tree.map(lambda x: x[..., 0], motion))

    @staticmethod
    def of(model: Model, q: Float[Array, " nq"], qd: Float[Array, " nq"] | None = None) -> "Motion":
        return Motion.of_lane(motion_of(model, q, jnp.zeros_like(q) if qd is None else qd))

    def rotation(self, link: int) -> Float[Array, "3 3"]:
        return jnp.eye(3, dtype=self.q.dtype) if link < 0 else self.transform[link, :, :3]

    def position(self, link: int, local: Point) -> Point:
        """Ground coordinates of a point given in the link's frame."""
        if link < 0:
            return local
        return self.transform[link, :, :3] @ local + self.transform[link, :, 3]

    def link_of(self, body: int) -> int:
        """The link that carries a body."""
        return -1 if body < 0 else self.topology.body_links[body]

    def body_rotation(self, body: int) -> Float[Array, "3 3"]:
        """Axes of a body's frame in the ground frame."""
        turn = self.rotation(self.link_of(body))
        return turn if body < 0 else turn @ self.bodies[body, :, :3]

    def body_point(self, body: int, local: Point) -> Point:
        """Ground coordinates of a point given in the body's frame."""
        if body < 0:
            return local
        frame = self.bodies[body]
        on_link = jnp.sum(frame[:, :3] * local[None], axis=1) + frame[:, 3]
        return self.position(self.link_of(body), on_link)

    def velocity_at(self, link: int, point: Point) -> Point:
        """Velocity of the link's material point that is at `point` (ground frame)."""
        if link < 0:
            return jnp.zeros_like(point)
        arm = point - self.origin
        return self.velocity[link, 3:] + jnp.cross(self.velocity[link, :3], arm)

    def acceleration_at(self, link: int, point: Point, qdd: Float[Array, " nq"]) -> Point:
        """Acceleration of the link's material point that is at `point`."""
        if link < 0:
            return jnp.zeros_like(point)
        chain = np.asarray(self.topology.chain(link))
        drift = self.acceleration[link] + (self.jacobian[chain] @ qdd) @ self.screw[chain]
        swing = jnp.cross(self.velocity[link, :3], self.velocity_at(link, point))
        return drift[3:] + jnp.cross(drift[:3], point - self.origin) + swing

    def jacobian_at(self, link: int, point: Point) -> Float[Array, "3 nq"]:
        """Velocity of that material point per unit q̇."""
        if link < 0:
            return jnp.zeros((3, self.q.shape[0]), dtype=self.q.dtype)
        chain = np.asarray(self.topology.chain(link))
        turn, slide = self.screw[chain, :3], self.screw[chain, 3:]
        per_joint = slide + jnp.cross(turn, (point - self.origin)[None])
        return per_joint.T @ self.jacobian[chain]

    def push(self, link: int, point: Point, force: Point) -> Float[Array, " nq"]:
        """Generalised force of a force on a link at `point`, both in the ground frame."""
        return self.jacobian_at(link, point).T @ force

    def turn(self, link: int, torque: Point) -> Float[Array, " nq"]:
        """Generalised force of a pure torque on a link (ground frame)."""
        if link < 0:
            return jnp.zeros_like(self.q)
        chain = np.asarray(self.topology.chain(link))
        return self.jacobian[chain].T @ (self.screw[chain, :3] @ torque)
