"""The generator: compiles the operation and backend specs of spec/ into C, docs and stubs.

Build time only; the passes are source, parse, check, lower and render, in this order.
"""
