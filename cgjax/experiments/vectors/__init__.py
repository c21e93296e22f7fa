"""The vector-valued simulation beside Wiedemer et al. 2023: recover latents from stacked parts.

K parts, each made from its own latents z_k by a random network g_k; the observation is their
stack x = (g_1(z_1), ..., g_K(z_K)). A model regresses z on x, is trained where the latents are
random, diagonal (all parts share them) or orthogonal (one part at a time is non-zero), and is
tested on random ones. One network fails off its support; one network per part does not.
"""
