"""The vector simulation beside Wiedemer et al. 2023, read off its plots; literals only."""

# Laid out by hand: a number per line would make three times as many lines, and no table to read.
# fmt: off
# Read off the plots stored in the authors' notebooks, not printed in the paper: one run each,
# trained on 4096 samples. `sd` is not a deviation over seeds but our reading error, chosen so
# that two of it cover what the plot may mean (0.02 either way; 0.4 to 0.55 for mlp_orthogonal).
NUMBERS = {
    "mlp_random": {
        "r2_all": {"mean": 0.97, "sd": 0.01, "values": (),
                   "where": "Wiedemer et al. 2023, notebook plot (read off): random"},
    },
    "mlp_diagonal": {
        "r2_all": {"mean": 0.14, "sd": 0.01, "values": (),
                   "where": "Wiedemer et al. 2023, notebook plot (read off): diagonal"},
    },
    "mlp_orthogonal": {
        "r2_all": {"mean": 0.475, "sd": 0.0375, "values": (),
                   "where": "Wiedemer et al. 2023, notebook plot (read off): orthogonal"},
    },
    "compositional_random": {
        "r2_all": {"mean": 0.97, "sd": 0.01, "values": (),
                   "where": "Wiedemer et al. 2023, notebook plot (read off): random"},
    },
    "compositional_diagonal": {
        "r2_all": {"mean": 0.97, "sd": 0.01, "values": (),
                   "where": "Wiedemer et al. 2023, notebook plot (read off): diagonal"},
    },
    "compositional_orthogonal": {
        "r2_all": {"mean": 0.93, "sd": 0.01, "values": (),
                   "where": "Wiedemer et al. 2023, notebook plot (read off): orthogonal"},
    },
    "regularised_random": {
        "r2_all": {"mean": 0.87, "sd": 0.01, "values": (),
                   "where": "Wiedemer et al. 2023, notebook plot (read off): random"},
    },
    "regularised_diagonal": {
        "r2_all": {"mean": -0.13, "sd": 0.01, "values": (),
                   "where": "Wiedemer et al. 2023, notebook plot (read off): diagonal"},
    },
    "regularised_orthogonal": {
        "r2_all": {"mean": 0.68, "sd": 0.01, "values": (),
                   "where": "Wiedemer et al. 2023, notebook plot (read off): orthogonal"},
    },
}
