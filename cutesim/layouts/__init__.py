"""CuTe's layout algebra on plain integers.

| module           | what                                   |
|------------------|----------------------------------------|
| `layout`         | shapes, strides, coordinates            |
| `layout_algebra` | products, divisions, inverses           |
"""
