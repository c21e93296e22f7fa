"""Open questions of the papers, and our answers: the table of the root README.

Each sentence of an answer has the findings that it states, ids of `published.claims`: a test holds
that the record matches all of them, or gives no verdict at its size, which the sentence then names.
Fields are those of `report.readme`. Literals only.
"""

# (question, row, ((sentence, its findings), ...))
QUESTIONS = (
    (
        "Do images alone suffice, without latents?",
        "`sprites:unsupervised_conv`, `_attention`",
        (
            ("If training shows all combinations, affine maps read the latents off an "
             "autoencoder's slots (R2 "
             "{{sprites/unsupervised_conv-fast random: slots_all, reconstruction .2f}}; "
             "slot attention "
             "{{sprites/unsupervised_attention-fast random: slots_all, reconstruction .2f}}). "
             "From seven smaller supports R2 on all combinations is lower "
             "({{sprites/unsupervised_conv-fast diagonal_broad: slots_all, reconstruction .2f}} "
             "and {{sprites/unsupervised_attention-fast diagonal_broad: slots_all, reconstruction "
             ".2f}} at best).",
             ("sprites.slots_carry_over_only_from_all_combinations",)),
            ("Consistency of recombined slots, in our form, closes nothing of the gap between R2 "
             "on known and on all combinations: it changes the latter by "
             "{{sprites/unsupervised_conv-fast gain of consistency outside .2f}}.",
             ("sprites.consistency_closes_no_gap",)),
        ),
    ),
    (
        "How do errors grow outside the support?", "`support:bound`",
        (
            ("By less than the predicted factor for all {{support/bound-default runs .0f}} seeds "
             "of recorded runs that end well, if an error of 10 % on the support is assumed; "
             "{{support/bound-default noise 0.1: share within a factor 5 .0%}} of them are within "
             "a factor 5 of this bound. If each seed's own error is taken, "
             "{{support/bound-default error of the run: runs above the bound .0f}} of them exceed "
             "it.",
             ("support.amplification_bounds_recorded_errors", "support.the_bound_is_not_tight")),
        ),
    ),
    (
        "Does the support also decide which pairs of real pictures are drawn right?",
        "`support:cut_outs`, `digits`",
        (
            ("Of pairs of CIFAR-10 cut-outs that training never shows, a learned table of "
             "pictures draws "
             "{{support/cut_outs-fast table/determined pairs drawn right .0%}} right if the "
             "support determines them, "
             "{{support/cut_outs-fast table/open pairs drawn right .0%}} if not (digits: "
             "{{support/digits-fast table/determined pairs drawn right .1%}} and "
             "{{support/digits-fast table/open pairs drawn right .1%}}).",
             ("support.determined_pairs_are_drawn_right",)),
            ("Scenes in which one picture varies at a time suffice for it (error "
             "{{support/cut_outs-fast table/planes: error of unseen pairs .2f}} times that of a "
             "model that saw everything), not for one network for both pictures "
             "({{support/cut_outs-fast monolithic/planes: error of unseen pairs .0f}} times).",
             ("support.planes_suffice_for_components",)),
            ("But how often pictures are shown separates wrong from right pairs of a support about "
             "as well as the condition does.",
             ("support.counting_tells_wrong_pairs_as_well",)),
        ),
    ),
    (
        "What stays unknown if the composition function C is learned?", "`support:unknown_c`",
        (
            ("One function of its value, for the back component: R2 is "
             "{{support/unknown_c-default learned/everything, 0 pixels known: back, any function "
             ".3f}} after the best function and "
             "{{support/unknown_c-default learned/everything, 0 pixels known: back, affine .2f}} "
             "after the best affine map, which has "
             "{{support/unknown_c-default known/everything, 0 pixels known: back, affine .2f}} if "
             "C is known.",
             ("support.a_learned_c_leaves_one_function",)),
        ),
    ),
    (
        "How many combinations must be seen?",
        "[coverage](cgjax/experiments/coverage/README.md)",
        (
            ("About linearly many in the number of values for sums (exponent "
             "{{coverage/addition-fast addition_mlp/n: exponent .2f}}, "
             "{{coverage/addition-fast addition_mlp/n: exponent, 2.5 % .2f}} to "
             "{{coverage/addition-fast addition_mlp/n: exponent, 97.5 % .2f}}), nearly a fixed "
             "share for bumps. On sums width does not replace them.",
             ("coverage.addition_is_linear", "coverage.bumps_need_a_share",
              "coverage.width_replaces_no_data")),
        ),
    ),
    (
        "Can a penalty learn the factors' axes?", "`bumps:axes`",
        (
            ("Yes if straight axes are turned by 45°: OOD nMSE "
             "{{bumps/axes-fast angle_45/learned axes: ood nmse median .2g}} (median) against "
             "{{bumps/axes-fast angle_45/no penalty: ood nmse median .2g}} "
             "without; not where axes are not straight.",
             ("bumps.learned_axes_compose", "bumps.axes_need_straight_factors")),
        ),
    ),
    (
        "Does a network also use a redundant digit that lies upon the first?",
        "`resistance:overlaid`",
        (
            ("Yes: training less test accuracy is "
             "{{resistance/overlaid-paper-overlaid overlaid/A: gap .2f}} if the second digit "
             "predicts the label in training, "
             "{{resistance/overlaid-paper-overlaid overlaid/B: gap z.2f}} if not "
             "({{resistance/overlaid-paper-overlaid overlaid/A: gap n .0f}} seeds).",
             ("resistance.overlaid.overlaid_gap_b_below_a",)),
            ("At default size this does more harm than rare pairs alone: test accuracy is "
             "{{resistance/overlaid-default overlaid/rho 0.9: test accuracy .2f}} if the second "
             "digit predicts the label in 90 % of the samples, "
             "{{resistance/overlaid-default overlaid/B, X_2 absent 0.9: "
             "test accuracy .2f}} if pairs of the test are as rare and it never does.",
             ("resistance.overlaid.overlaid_as_rare_rho_0.9_below_b",)),
        ),
    ),
    (
        "Does structure go with generalization?", "`subnetworks:generalization`",
        (
            ("Weakly: over 30 small BERTs tau of structure and held-out accuracy is "
             "{{subnetworks/generalization-fast tau of structure and held-out accuracy over bases "
             ".2f}} ({{subnetworks/generalization-fast tau of structure and held-out accuracy over "
             "bases, 2.5 % .2f}} to {{subnetworks/generalization-fast tau of structure and "
             "held-out accuracy over bases, 97.5 % .2f}}) with fixed masks.",
             ("subnetworks.structure_goes_with_generalization",)),
            ("Among bases that solve the rule nothing can be shown, with fixed "
             "({{subnetworks/generalization-fast tau of structure and held-out accuracy over bases "
             "that solve the rule .2f}}) or selected masks "
             "({{subnetworks/generalization-fast tau of structure, selected and held-out accuracy "
             "over bases that solve the rule .2f}}).",
             ("subnetworks.structure_among_bases_that_solve_the_rule",)),
        ),
    ),
)  # fmt: skip
