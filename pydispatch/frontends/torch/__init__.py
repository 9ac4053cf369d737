"""Frontend for PyTorch: reads the files that `torch.export.save` writes (.pt2), without PyTorch.

archive.py   the zip file: the program as text, the weights as views of the mapped file

json_value.py, schema.py   the text as typed nodes, with every field checked

trace.py     the nodes in order, each converted by a function of `nodes/`
"""
