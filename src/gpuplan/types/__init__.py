"""The nouns of gpuplan: frozen values without behaviour, which import nothing of ours.

Read these files first; everything else turns one of these values into another.
"""
