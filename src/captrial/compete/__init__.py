"""Similarity, selection, dominance, ranking; stability; repetition."""
