"""Shares of values that pass the rank condition, failing pixels, median smallest singular values.

Not the paper's, which computes no rank: measured once with other code; errors are its sampling
errors. Literals only.
"""

# Laid out by hand, a table to read: row, where it stands, {metric: (number, its error)}.
# fmt: off
READ_OFF = {
    "table": {
        "an independent implementation, 40 values, 48 partners": {
            "random/step_back": (1.0, 0.0), "random/step_front_own": (1.0, 0.0),
            "random/step_front": (0.0, 0.0), "random/sigmoid_front": (1.0, 0.0),
            "random/sigmoid_back": (1.0, 0.0), "random/alpha_front": (0.0, 0.0),
            "orthogonal/step_back": (1.0, 0.0), "orthogonal/step_front_own": (1.0, 0.0),
            "orthogonal/step_front": (0.0, 0.0), "orthogonal/sigmoid_front": (1.0, 0.0),
            "orthogonal/sigmoid_back": (1.0, 0.0), "orthogonal/alpha_front": (0.0, 0.0),
            "orthogonal_star/step_back": (0.0, 0.0), "orthogonal_star/step_front_own": (1.0, 0.0),
            "orthogonal_star/step_front": (0.0, 0.0), "orthogonal_star/sigmoid_front": (1.0, 0.0),
            "orthogonal_star/sigmoid_back": (1.0, 0.0), "orthogonal_star/alpha_front": (0.0, 0.0),
            "orthogonal_broad/step_back": (1.0, 0.0), "orthogonal_broad/step_front_own": (1.0, 0.0),
            "orthogonal_broad/step_front": (0.0, 0.0), "orthogonal_broad/sigmoid_front": (1.0, 0.0),
            "orthogonal_broad/sigmoid_back": (1.0, 0.0), "orthogonal_broad/alpha_front": (0.0, 0.0),
            "diagonal_broad/step_back": (1.0, 0.0), "diagonal_broad/step_front_own": (1.0, 0.0),
            "diagonal_broad/step_front": (0.0, 0.0), "diagonal_broad/sigmoid_front": (1.0, 0.0),
            "diagonal_broad/sigmoid_back": (1.0, 0.0), "diagonal_broad/alpha_front": (0.0, 0.0),
            "diagonal/step_back": (0.9, 0.05), "diagonal/step_front_own": (1.0, 0.0),
            "diagonal/step_front": (0.0, 0.0), "diagonal/sigmoid_front": (1.0, 0.0),
            "diagonal/sigmoid_back": (1.0, 0.0), "diagonal/alpha_front": (0.0, 0.0),
            "diagonal_narrow/step_back": (0.1, 0.05), "diagonal_narrow/step_front_own": (1.0, 0.0),
            "diagonal_narrow/step_front": (0.0, 0.0), "diagonal_narrow/sigmoid_front": (1.0, 0.0),
            "diagonal_narrow/sigmoid_back": (1.0, 0.0), "diagonal_narrow/alpha_front": (0.0, 0.0),
            "orthogonal_star/step_back failing pixels": (40.0, 0.5),
            "diagonal_narrow/step_back failing pixels": (17.0, 3.0),
            "orthogonal/sigmoid_front sigma": (0.147, 0.0005),
            "orthogonal/sigmoid_back sigma": (0.619, 0.0005),
            "orthogonal_star/sigmoid_front sigma": (0.147, 0.0005),
            "orthogonal_star/sigmoid_back sigma": (0.214, 0.0005),
            "orthogonal_broad/sigmoid_front sigma": (0.626, 0.0005),
            "orthogonal_broad/sigmoid_back sigma": (0.714, 0.0005),
            "orthogonal_gap/step_back": (1.0, 0.0), "orthogonal_gap/alpha_front": (0.0, 0.0),
        },
        "the share of x outside the gap from 0.05 to 0.45": {
            "orthogonal_gap/step_front_own": (0.6, 0.0), "orthogonal_gap/sigmoid_front": (0.6, 0.0),
        },
    },
    "partners": {
        "an independent implementation, 60 values": {
            "delta 0.2, 48 partners": (1.0, 0.05),
            "delta 0.2, 48 partners: failing pixels": (0.0, 3.0),
            "delta 0.2, 512 partners": (1.0, 0.05),
            "delta 0.2, 512 partners: failing pixels": (0.0, 3.0),
            "delta 0.1, 48 partners": (0.92, 0.05),
            "delta 0.1, 48 partners: failing pixels": (1.0, 3.0),
            "delta 0.1, 512 partners": (0.97, 0.05),
            "delta 0.1, 512 partners: failing pixels": (0.1, 3.0),
            "delta 0.07, 48 partners": (0.37, 0.05),
            "delta 0.07, 48 partners: failing pixels": (9.5, 3.0),
            "delta 0.07, 512 partners": (0.58, 0.05),
            "delta 0.07, 512 partners: failing pixels": (4.3, 3.0),
            "delta 0.05, 48 partners": (0.1, 0.05),
            "delta 0.05, 48 partners: failing pixels": (20.0, 3.0),
            "delta 0.05, 512 partners": (0.18, 0.05),
            "delta 0.05, 512 partners: failing pixels": (18.0, 3.0),
            "delta 0.03, 48 partners": (0.0, 0.05),
            "delta 0.03, 48 partners: failing pixels": (50.0, 3.0),
            "delta 0.03, 512 partners": (0.0, 0.05),
            "delta 0.03, 512 partners: failing pixels": (45.0, 3.0),
        },
    },
}
