"""Claims in words of Lepori, Serre and Pavlick 2023, laid out as those of sprites; literals only.

Differences are clipped at chance. The threshold 0.9 is the one the paper asks of a base; the
tolerance 0.1 of random networks is ours.
"""

# (rule, subroutine)
LANGUAGE = (
    ("agreement_singular", "subject"),
    ("agreement_singular", "verb"),
    ("agreement_plural", "subject"),
    ("agreement_plural", "verb"),
    ("anaphora_singular", "antecedent"),
    ("anaphora_singular", "pronoun"),
    ("anaphora_plural", "antecedent"),
    ("anaphora_plural", "pronoun"),
)
VISION = (
    ("inside_contact", "inside"),
    ("inside_contact", "contact"),
    ("inside_number", "inside"),
    ("inside_number", "number"),
    ("number_contact", "number"),
    ("number_contact", "contact"),
)

STATED = {
    "subnetworks": {
        "scratch_subnetworks": {
            "sentence": "Subnetworks of BERT from scratch for one subroutine fail at the other",
            "where": "trained bases, BERT-small from scratch",
            "chains": [[("{0}", "scratch/{1}: sub_diff"), 0]],
            "each": LANGUAGE,
        },
        "scratch_ablations": {
            "sentence": "Without its subnetwork BERT from scratch loses a subroutine more than the "
            "other, but for the plural verb",
            "where": "trained bases, BERT-small from scratch",
            "chains": [[0, ("{0}", "scratch/{1}: abl_diff")]],
            "each": (
                ("agreement_singular", "subject"),
                ("agreement_singular", "verb"),
                ("agreement_plural", "subject"),
                ("anaphora_singular", "antecedent"),
                ("anaphora_singular", "pronoun"),
                ("anaphora_plural", "antecedent"),
                ("anaphora_plural", "pronoun"),
            ),
        },
        "pretrained_subnetworks": {
            "sentence": "Subnetworks of pretrained BERT for one subroutine fail at the other",
            "where": "trained bases, pretrained BERT-small",
            "chains": [[("{0}", "pretrained/{1}: sub_diff"), 0]],
            "each": LANGUAGE,
        },
        "pretrained_ablations": {
            "sentence": "Without its subnetwork pretrained BERT loses a subroutine more than the "
            "other",
            "where": "trained bases, pretrained BERT-small",
            "chains": [[0, ("{0}", "pretrained/{1}: abl_diff")]],
            "each": LANGUAGE,
        },
        "resnet50_subnetworks": {
            "sentence": "Subnetworks of ResNet-50 for one subroutine fail at the other",
            "where": "trained bases, ResNet-50",
            "chains": [[("{0}", "resnet50/{1}: sub_diff"), 0]],
            "each": VISION,
        },
        "resnet50_ablations": {
            "sentence": "Without its subnetwork ResNet-50 loses a subroutine more than the other",
            "where": "trained bases, ResNet-50",
            "chains": [[0, ("{0}", "resnet50/{1}: abl_diff")]],
            "each": VISION,
        },
        "wide_subnetworks": {
            "sentence": "Subnetworks of Wide ResNet-50-2 for one subroutine fail at the other",
            "where": "trained bases, Wide ResNet-50-2",
            "chains": [[("wide", "{0}/{1}: sub_diff"), 0]],
            "each": VISION,
        },
        "simclr_subnetworks": {
            "sentence": "Subnetworks of SimCLR's ResNet-50 for one subroutine fail at the other",
            "where": "trained bases, ResNet-50 after SimCLR",
            "chains": [[("simclr", "{0}/{1}: sub_diff"), 0]],
            "each": VISION,
        },
        "simclr_ablations": {
            "sentence": "Without its subnetwork SimCLR's ResNet-50 loses a subroutine more than "
            "the other",
            "where": "trained bases, ResNet-50 after SimCLR",
            "chains": [[0, ("simclr", "{0}/{1}: abl_diff")]],
            "each": VISION,
        },
        "pretraining_makes_modules": {
            "sentence": "On agreement, removing a subnetwork of a pretrained BERT hurts its "
            "subroutine more than one from scratch",
            "where": "trained bases, means over all runs",
            "chains": [[("{0}", "scratch/{1}: abl_diff"), ("{0}", "pretrained/{1}: abl_diff")]],
            "each": (
                ("agreement_singular", "subject"),
                ("agreement_singular", "verb"),
                ("agreement_plural", "subject"),
                ("agreement_plural", "verb"),
            ),
        },
        "contact_is_a_module_number_is_not": {
            "sentence": "In number and contact, removing the subnetwork for contact hurts contact, "
            "and more than the one for number hurts number",
            "where": "trained bases, ResNet-50",
            "chains": [
                [
                    ("number_contact", "resnet50/number: abl_diff"),
                    ("number_contact", "resnet50/contact: abl_diff"),
                ],
                [0, ("number_contact", "resnet50/contact: abl_diff")],
            ],
        },
        "number_is_no_module": {
            "sentence": "In number and contact, removing the subnetwork for number makes no "
            "difference between number and contact",
            "where": "trained bases, ResNet-50",
            "equal": [[("number_contact", "resnet50/number: abl_diff"), 0]],
        },
        "random_resnets_hold_no_modules": {
            "sentence": "In random ResNets removing a subnetwork hurts both subroutines alike",
            "where": "random weights, ResNet-50",
            "equal": [[("{0}", "random_weights/{1}: abl_diff"), 0]],
            "each": VISION,
            "tolerance": 0.1,
        },
        "random_weights_hold_subnetworks": {
            "sentence": "Masks that solve a subroutine exist in random BERTs too",
            "where": "random weights, BERT-small from scratch",
            "chains": [[("{0}", "random_weights/{1}: sub target"), 0.9]],
            "each": LANGUAGE,
        },
        "random_weights_hold_no_modules": {
            "sentence": "In random BERTs removing them does not hurt the subroutine more than the "
            "other",
            "where": "random weights, BERT-small from scratch",
            "chains": [[("{0}", "random_weights/{1}: abl_diff"), 0]],
            "each": LANGUAGE,
        },
    }
}
