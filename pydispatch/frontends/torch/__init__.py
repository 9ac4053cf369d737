"""PyTorch: what `torch.export.save` writes (.pt2), read without PyTorch.

archive.py   the zip file: its program as text, its weights as views of the file
json_value.py, schema.py   the text as typed nodes, every field checked
trace.py     the nodes in order, each one converted by a function of `nodes/`
"""
