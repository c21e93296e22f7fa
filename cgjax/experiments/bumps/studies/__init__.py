"""The studies of the family: decoders and their analyses, rotating digits, encoders."""
