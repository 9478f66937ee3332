"""The trainer that the recipes share: PyTorch, transformers, torch.distributed.checkpoint.

`config`, `models`, `datasets` and `loop` import nothing but the standard library, so that recipes can be read, changed
and sent off where there is no torch; the other modules are for the nodes.
"""
