"""Numbers as a kernel has them.

| module         | what                                                                                     |
|----------------|------------------------------------------------------------------------------------------|
| `numeric`      | types, dynamic values, register vectors                                                  |
| `exact`        | the same numbers in float64                                                              |
| `loaded`       | numbers of which is known that they wait for a load                                      |
| `field`, `symbolic`, `trees` | the same in finite fields, as formulas, and how each was made              |
| `eight_bits`   | float8's bits                                                                             |
| `arithmetic`, `mathops`, `indices` | arithmetic of cute.arch, cute.math, indices of threads and blocks    |
| `placeholders` | names that stand in annotations, and names that are missing                              |
| `package_methods` | methods that a package gives the DSL's tensors                                        |
"""
