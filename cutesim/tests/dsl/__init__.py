"""Kernels that the simulator's tests run; they load where the DSL is not installed, too."""

from cutesim.language.loading import answer_package

answer_package(__name__)
