"""The vector simulation beside Wiedemer et al. 2023, read off its notebooks' plots; literals only.

One run each, trained on 4096 samples. Errors are those of our reading, chosen so that two of them
cover what the plot may mean (0.02 either way; 0.4 to 0.55 for mlp_orthogonal).
"""

# Laid out by hand, a table to read: row, where it stands, {metric: (number, its error)}.
# fmt: off
READ_OFF = {
    "mlp_random": {
        "Wiedemer et al. 2023, notebook plot (read off): random": {
            "r2_all": (0.97, 0.01),
        },
    },
    "mlp_diagonal": {
        "Wiedemer et al. 2023, notebook plot (read off): diagonal": {
            "r2_all": (0.14, 0.01),
        },
    },
    "mlp_orthogonal": {
        "Wiedemer et al. 2023, notebook plot (read off): orthogonal": {
            "r2_all": (0.475, 0.0375),
        },
    },
    "compositional_random": {
        "Wiedemer et al. 2023, notebook plot (read off): random": {
            "r2_all": (0.97, 0.01),
        },
    },
    "compositional_diagonal": {
        "Wiedemer et al. 2023, notebook plot (read off): diagonal": {
            "r2_all": (0.97, 0.01),
        },
    },
    "compositional_orthogonal": {
        "Wiedemer et al. 2023, notebook plot (read off): orthogonal": {
            "r2_all": (0.93, 0.01),
        },
    },
    "regularised_random": {
        "Wiedemer et al. 2023, notebook plot (read off): random": {
            "r2_all": (0.87, 0.01),
        },
    },
    "regularised_diagonal": {
        "Wiedemer et al. 2023, notebook plot (read off): diagonal": {
            "r2_all": (-0.13, 0.01),
        },
    },
    "regularised_orthogonal": {
        "Wiedemer et al. 2023, notebook plot (read off): orthogonal": {
            "r2_all": (0.68, 0.01),
        },
    },
}
