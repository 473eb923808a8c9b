"""A kernel with one step of its source taken away or altered, as a reader gets it wrong."""

from cutesim.mutants import Mutant, applied, source_of


def edited(module, old: str, new: str = ""):
    """Run the kernels of a module with the first `old` of its source made `new`."""
    start = source_of(module.__file__).index(old)
    mutant = Mutant(module.__file__, "", "", "", start, start + len(old), new, first=0, last=0, line=0, column=0)
    return applied(mutant, [module])
