"""The import contract of the pure rooms, for import-linter (see `.importlinter`).

It is import-linter's `forbidden` contract, except that a room which does not exist yet is passed over
instead of being an error. Direction between rooms is the other contract, `layers`.
"""

from grimp import ImportGraph
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.domain.contract import ContractCheck


class PureRooms(ForbiddenContract):
    type_name = "pure"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        self.source_modules = {room for room in self.source_modules if room.expression in graph.modules}
        return super().check(graph, verbose)
