"""Data shared by several papers: image and text data sets, supports, batches, tokenisers."""
