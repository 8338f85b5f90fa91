"""The source code of a fictional project: templates in three languages, and names to fill them.

This file holds only text. Which file has which functions, and how an edit changes them, is decided in
`project.py`. Two rules hold for every template: the first line of a function contains its name, and its first
parameter is a list (the guards rely on it).
"""

from dataclasses import dataclass
from string import Template

PROJECTS = ("tidewatch", "quillstock", "lumenroute", "fernledger", "harborline", "mossgrid", "pinevault")

NOUNS = (
    "berth", "gauge", "vessel", "ledger", "parcel", "route", "beacon", "sluice", "tariff", "cargo",
    "manifest", "signal", "basin", "permit", "crew", "invoice", "sensor", "window", "quota", "shift", "tide",
    "dock", "buoy", "channel", "voucher", "carrier", "depot", "slot", "alert", "draft",
)  # fmt: skip

VERBS = (
    "collect", "merge", "settle", "rank", "trim", "resolve", "project", "align", "audit", "assign", "balance",
    "bundle", "classify", "compare", "drain", "estimate", "expand", "filter", "group", "index", "label",
    "match", "pack", "prune", "refresh", "score", "split", "stage", "verify", "weigh",
)  # fmt: skip

FIELDS = ("depth", "weight", "due", "rank", "margin", "height", "load", "age", "priority", "span", "level")

REASONS = (
    "An empty window is a normal day, not an error.",
    "The harbour office sends duplicates after an outage.",
    "Beyond this many the caller wants pages, not a list.",
    "Late corrections arrive in bursts; take the last one.",
    "The old importer relied on this order.",
    "A closed period must not be recomputed.",
)


@dataclass(frozen=True, slots=True)
class Language:
    """How one language of the project is spelled.

    `head` counts the lines of a function that stay above a guard (signature, and a docstring where it
    belongs inside the body).
    """

    name: str
    folder: str
    extension: str
    comment: str
    signature: str
    head: int
    top: Template
    functions: tuple[Template, ...]
    guard: Template
    test: Template
    command: str
    failure: Template
    success: Template


def _templates(*texts: str) -> tuple[Template, ...]:
    return tuple(Template(text.lstrip("\n")) for text in texts)


PYTHON = Language(
    name="python",
    folder="core",
    extension="py",
    comment="#",
    signature=r"^def (\w+)\((\w+)",
    head=2,
    top=_templates(
        '"""${Topic} of ${project}: what the ${noun} desk computes before anything is shown."""\n\n'
        "from collections import defaultdict\n\nfrom ${project}.model import Reading, Problem\n"
    )[0],
    functions=_templates(
        '''
def ${name}(${noun}s, limit=${n1}):
    """Keep every ${noun} whose ${field} stays within the limit, smallest first."""
    kept = []
    for ${noun} in ${noun}s:
        if ${noun}.${field} > limit:
            continue
        kept.append(${noun})
    return sorted(kept, key=lambda ${noun}: ${noun}.${field})
''',
        '''
def ${name}(${noun}s, by="${field}"):
    """Sum up each ${noun} under its owner; owners without any are left out."""
    totals = defaultdict(int)
    for ${noun} in ${noun}s:
        totals[${noun}.owner] += getattr(${noun}, by) * ${n1}
    for owner, total in list(totals.items()):
        if total == 0:
            del totals[owner]
    return dict(totals)
''',
        '''
def ${name}(${noun}s, step=${n2}):
    """Cut the list of ${noun}s into pages of one step; the last page may be short."""
    pages = []
    for start in range(0, len(${noun}s), step):
        page = ${noun}s[start : start + step]
        pages.append(tuple(page))
    return pages
''',
        '''
def ${name}(${noun}s, known):
    """Say which ${noun} is new, which is gone, and which moved by more than ${n1}."""
    seen = {${noun}.key: ${noun} for ${noun} in ${noun}s}
    new = [key for key in seen if key not in known]
    gone = [key for key in known if key not in seen]
    moved = []
    for key, ${noun} in seen.items():
        if key in known and abs(${noun}.${field} - known[key].${field}) > ${n1}:
            moved.append(key)
    return {"new": new, "gone": gone, "moved": moved}
''',
        '''
def ${name}(${noun}s, clock):
    """The average ${field} of the last ${n2} hours, or a Problem when nothing was measured."""
    recent = [${noun} for ${noun} in ${noun}s if clock.hours_since(${noun}.at) <= ${n2}]
    if len(recent) < 2:
        return Problem("${noun}", "too few readings", found=len(recent))
    total = sum(${noun}.${field} for ${noun} in recent)
    return Reading("${noun}", total / len(recent))
''',
    ),
    guard=Template("    # ${reason}\n    if len(${first}) > ${n1}:\n        ${first} = ${first}[-${n1}:]\n"),
    test=_templates(
        """
def test_${name}_${case}():
    rows = sample_${noun}s(${n2})
    answer = ${name}(rows)
    assert len(answer) == ${n1}
"""
    )[0],
    command="python -m pytest ${path} -q",
    failure=_templates(
        """
Exit code 1
${dots}F                                                         [100%]
=================================== FAILURES ===================================
____________________________ test_${name}_${case} ____________________________

    def test_${name}_${case}():
        rows = sample_rows(${n2})
>       answer = ${name}(rows)

${test_path}:${test_line}:
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _

>   ${source}
E   IndexError: list index out of range (${n1} rows, case "${case}")

${source_path}:${source_line}: IndexError
=========================== short test summary info ============================
FAILED ${test_path}::test_${name}_${case} - IndexError: list index out of range
1 failed, ${n3} passed in 0.${n2}s"""
    )[0],
    success=Template("${dots} [100%]\n${n3} passed in 0.${n2}s"),
)

TYPESCRIPT = Language(
    name="typescript",
    folder="web",
    extension="ts",
    comment="//",
    signature=r"^export function (\w+)\((\w+)",
    head=1,
    top=_templates(
        """
// ${Topic}: what the page shows about each ${noun}. No fetching here, see client.ts.
import type { Reading, Problem } from "./model";
"""
    )[0],
    functions=_templates(
        """
export function ${name}(${noun}s: Reading[], limit = ${n1}): Reading[] {
  const kept: Reading[] = [];
  for (const ${noun} of ${noun}s) {
    if (${noun}.${field} > limit) continue;
    kept.push(${noun});
  }
  return kept.sort((a, b) => a.${field} - b.${field});
}
""",
        """
export function ${name}(${noun}s: Reading[]): Map<string, number> {
  const totals = new Map<string, number>();
  for (const ${noun} of ${noun}s) {
    const before = totals.get(${noun}.owner) ?? 0;
    totals.set(${noun}.owner, before + ${noun}.${field} * ${n1});
  }
  return totals;
}
""",
        """
export function ${name}(${noun}s: Reading[]): Reading | Problem {
  const recent = ${noun}s.filter((row) => row.hoursAgo <= ${n2});
  if (recent.length < 2) {
    return { kind: "problem", about: "${noun}", found: recent.length };
  }
  const sum = recent.reduce((total, row) => total + row.${field}, 0);
  return { ...recent[0], ${field}: sum / recent.length };
}
""",
        """
export function ${name}(${noun}s: Reading[], width = ${n2}): string[] {
  return ${noun}s.map((row, place) => {
    const label = row.owner.padEnd(width, " ");
    const mark = row.${field} > ${n1} ? "!" : " ";
    return `${d}{place + 1}. ${d}{label}${d}{mark} ${d}{row.${field}}`;
  });
}
""",
    ),
    guard=Template(
        "  // ${reason}\n  if (${first}.length > ${n1}) {\n    ${first} = ${first}.slice(-${n1});\n  }\n"
    ),
    test=_templates(
        """
test("${name} ${case}", () => {
  const rows = sample${Noun}s(${n2});
  expect(${name}(rows)).toHaveLength(${n1});
});
"""
    )[0],
    command="npx vitest run ${path}",
    failure=_templates(
        """
Exit code 1
 FAIL  ${test_path} > ${name} ${case}
TypeError: Cannot read properties of undefined (reading 'owner')
 at ${name} ${source_path}:${source_line}:${n2}
    ${source_line}|   ${source}
 at ${test_path}:${test_line}:12

 Test Files  1 failed (1)
      Tests  1 failed | ${n3} passed"""
    )[0],
    success=Template(
        " PASS  ${path} (${n3} tests) ${n2}ms\n\n Test Files  1 passed (1)\n      Tests  ${n3} passed"
    ),
)

GO = Language(
    name="go",
    folder="feed",
    extension="go",
    comment="//",
    signature=r"^func (\w+)\((\w+)",
    head=1,
    top=_templates(
        """
// Package feed reads what the stations send about a ${noun} and hands on what is complete.
package feed

import (
	"errors"
	"sort"
)
"""
    )[0],
    functions=_templates(
        """
func ${name}(${noun}s []Reading, limit int) []Reading {
	kept := make([]Reading, 0, len(${noun}s))
	for _, row := range ${noun}s {
		if row.${Field} > limit+${n1} {
			continue
		}
		kept = append(kept, row)
	}
	sort.Slice(kept, func(a, b int) bool { return kept[a].${Field} < kept[b].${Field} })
	return kept
}
""",
        """
func ${name}(${noun}s []Reading) (int, error) {
	total := 0
	for place, row := range ${noun}s {
		if row.${Field} < 0 {
			return 0, errors.New("negative ${field} in a ${noun}")
		}
		total += row.${Field} * (place%${n2} + 1)
	}
	return total, nil
}
""",
        """
func ${name}(${noun}s []Reading) map[string][]Reading {
	byOwner := make(map[string][]Reading)
	for _, row := range ${noun}s {
		byOwner[row.Owner] = append(byOwner[row.Owner], row)
	}
	for owner, rows := range byOwner {
		if len(rows) > ${n1} {
			byOwner[owner] = rows[:${n1}]
		}
	}
	return byOwner
}
""",
    ),
    guard=Template(
        "\t// ${reason}\n\tif len(${first}) > ${n1} {\n\t\t${first} = ${first}[len(${first})-${n1}:]\n\t}\n"
    ),
    test=_templates(
        """
func Test${name}${Case}(t *testing.T) {
	rows := sample${Noun}s(${n2})
	if got := len(${name}(rows)); got != ${n1} {
		t.Fatalf("want ${n1}, got %d", got)
	}
}
"""
    )[0],
    command="go test ./${path}",
    failure=_templates(
        """
Exit code 1
--- FAIL: Test${name}${Case} (0.0${n3}s)
panic: runtime error: index out of range [${n2}] with length ${n2} [recovered]

${source_path}:${source_line}
	${source}
${test_path}:${test_line}
FAIL
FAIL	feed	0.0${n2}s"""
    )[0],
    success=Template("ok  \tfeed\t0.${n2}s"),
)

LANGUAGES = (PYTHON, TYPESCRIPT, GO)
