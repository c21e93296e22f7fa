"""The vector simulation that accompanies Wiedemer et al. 2023: latents from stacked parts.

A random network g_k makes part k of K from latents z_k. The observation is the stack
x = (g_1(z_1), ..., g_K(z_K)). A model regresses z on x. It is trained on latents that are random,
diagonal (all parts share them) or orthogonal (one part at a time is non-zero), and tested on random
ones. One network for all parts fails outside its support; one network per part does not.
"""
