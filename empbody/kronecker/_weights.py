"""W_ji and W̄_sji: how joints move a frame that they carry.

Frame i is any frame carried by joints j and s: that of a link, or of a body on it. Only
its pose 0→i A₄ enters, so it is passed as `pose`.
"""

from jaxtyping import Array, Float, Int

from ._transforms import Links, inverse

Index = int | Int[Array, ""]


def first_weight(links: Links, j: Index, pose: Float[Array, "4 4"]) -> Float[Array, "4 4"]:
    """W_ji = (0→j A₄) Â_j (j→i A₄), the partial derivative of 0→i A₄ to f_j.

    (Ehsani 2016, Eq. 76.) Joint j carries frame i.
    """
    return links.pose[j] @ links.joint_matrix[j] @ inverse(links.pose[j]) @ pose


def second_weight(
    links: Links, upper: Index, lower: Index, pose: Float[Array, "4 4"]
) -> Float[Array, "4 4"]:
    """W̄_sji, the second partial derivative of 0→i A₄ to f_s and f_j.

    (Ehsani 2016, Eq. 98, corrected.) The two cases of Eq. 98, s ∈ Ω_ij and its opposite,
    are one product with s and j in the order in which they come from the root:
    W_(upper)(lower) Â_lower (lower→i A₄).
    """
    W = first_weight(links, upper, links.pose[lower])
    return W @ links.joint_matrix[lower] @ inverse(links.pose[lower]) @ pose
