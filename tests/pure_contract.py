"""The import contract of the pure packages, for import-linter (see `.importlinter`).

It is import-linter's `forbidden` contract, except that a package which does not exist yet is passed over
instead of being an error. Direction between packages is the other contract, `layers`.
"""

from grimp import ImportGraph
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.domain.contract import ContractCheck


class PurePackages(ForbiddenContract):
    type_name = "pure"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        self.source_modules = {each for each in self.source_modules if each.expression in graph.modules}
        return super().check(graph, verbose)
