"""Named numeric rewrites. Each keeps NaN, infinities and float32 accuracy; none reassociates in secret."""

from __future__ import annotations

from tree_sitter import Node

from kevolve.languages.cpp.edits.dependence import Accumulator, declared_names, effects, fold_of, mentions, subscript
from kevolve.languages.cpp.edits.edit import Edit, Parameters, function_sites
from kevolve.languages.cpp.edits.source import Loop, Source, child, statements, walk

POLYNOMIAL_EXP = """\
// e^x within 2 ulp of the true value, denormal results, infinities and NaN included. Plain arithmetic, so that
// it vectorises. x = n ln 2 + r with |r| <= ln 2 / 2; the polynomial in r is the one of the Cephes library.
static inline __attribute__((always_inline)) float polynomial_exp(float x) {
    x = x > 89.0f ? 89.0f : x;  // comparisons with NaN are false: it passes through
    x = x < -104.0f ? -104.0f : x;
    float shifted = x * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: rounds to an integer, held in the low bits
    float n = shifted - 12582912.0f;
    float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    uint32_t bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    int32_t power = static_cast<int32_t>(bits - 0x4b400000u);
    int32_t half = power >> 1;  // 2^n in two factors: each is a normal number even where e^x is not
    uint32_t low_bits = (static_cast<uint32_t>(half) + 127u) << 23;
    uint32_t high_bits = (static_cast<uint32_t>(power - half) + 127u) << 23;
    float low, high;
    std::memcpy(&low, &low_bits, sizeof low);
    std::memcpy(&high, &high_bits, sizeof high);
    return p * low * high;
}

"""


def polynomial_exp(source: Source, site: str, parameters: Parameters) -> str | None:
    """Every `expf` of the function as an inline polynomial."""
    function = source.functions.get(site)
    if function is None or "polynomial_exp" in source.functions:
        return None
    calls = [child(n, "function") for n in walk(function) if n.type == "call_expression"]
    names = [n for n in calls if n is not None and source.text(n) in ("expf", "std::expf", "__builtin_expf")]
    if not names:
        return None
    top: Node = function
    while top.parent is not None and top.parent.type != "translation_unit":
        top = top.parent
    while top.prev_named_sibling is not None and top.prev_named_sibling.type == "comment":
        top = top.prev_named_sibling
    head = (top.start_byte, top.start_byte, POLYNOMIAL_EXP)
    return source.splice([head, *((n.start_byte, n.end_byte, "polynomial_exp") for n in names)])


def _scalar_type(source: Source, node: Node, name: str) -> str | None:
    function = source.function_of(node)
    kinds = {
        source.text(kind)
        for n in walk(function or node)
        if n.type == "declaration" and name in declared_names(source, n) and (kind := child(n, "type")) is not None
    }
    return kinds.pop() if len(kinds) == 1 else None


def reciprocal(source: Source, site: str, parameters: Parameters) -> str | None:
    """Division by a floating-point scalar that the loop does not change, as multiplication by its inverse."""
    loop = source.loop(site)
    if loop is None or loop.node.parent is None or loop.node.parent.type != "compound_statement":
        return None
    found = effects(source, loop.body)
    divisors: dict[str, list[Node]] = {}
    for n in walk(loop.body):
        operator, right = child(n, "operator"), child(n, "right")
        if n.type in ("binary_expression", "assignment_expression") and operator is not None and right is not None:
            is_division = source.text(operator) in ("/", "/=") and right.type == "identifier"
            if is_division and source.text(right) not in found.written | found.declared:
                divisors.setdefault(source.text(right), []).append(n)
    lines, splices = [], []
    for name, nodes in divisors.items():
        kind = _scalar_type(source, loop.node, name)
        if kind in ("float", "double"):
            inverse = source.fresh(f"{name}_inverse")
            lines.append(f"const {kind} {inverse} = {'1.0f' if kind == 'float' else '1.0'} / {name};\n")
            for n in nodes:
                operator, right = child(n, "operator"), child(n, "right")
                if operator is not None and right is not None:
                    splices.append((operator.start_byte, operator.end_byte, source.text(operator).replace("/", "*")))
                    splices.append((right.start_byte, right.end_byte, inverse))
    start = source.span(loop)[0]
    return source.splice([(start, start, "".join(lines)), *splices]) if splices else None


def _twin(source: Source, loop: Loop) -> Loop | None:
    """The nearest earlier loop in the same block over the same range, if nothing between them is a loop."""
    node = loop.node.prev_named_sibling
    node = node.prev_named_sibling if node is not None else None
    while node is not None and node.type in ("declaration", "expression_statement", "comment"):
        node = node.prev_named_sibling
    twin = source.loop(source.site_of(node) or "") if node is not None and node.type == "for_statement" else None
    return twin if twin is not None and twin.header == loop.header else None


def _stored_assignment(source: Source, loop: Loop) -> tuple[str, str, Node] | None:
    """(base, index, right side) if the loop's body does nothing but one plain store."""
    nodes = [n for n in statements(loop.body) if n.type != "comment"]
    store = nodes[0].named_children[0] if len(nodes) == 1 and nodes[0].type == "expression_statement" else None
    left, right, operator = (child(store, part) for part in ("left", "right", "operator"))
    place = subscript(source, left) if left is not None and left.type == "subscript_expression" else None
    if place is None or right is None or operator is None or source.text(operator) != "=":
        return None
    return place[0], place[1], right


def _is_float_call(source: Source, node: Node) -> bool:
    function = child(node, "function")
    name = source.text(function) if node.type == "call_expression" and function is not None else ""
    return name in ("expf", "logf", "tanhf", "sqrtf", "polynomial_exp")


def store_reuse(source: Source, site: str, parameters: Parameters) -> str | None:
    """A value computed in two loops: kept in the output by the first, read back by the second.

    Only where the output's type holds it exactly; in other variants the value is computed twice as before.
    """
    loop = source.loop(site)
    twin = _twin(source, loop) if loop is not None else None
    stored = _stored_assignment(source, loop) if loop is not None else None
    if loop is None or twin is None or stored is None:
        return None
    base, index, right = stored
    again = next((n for n in walk(right) if _is_float_call(source, n)), None)
    text = source.text(again) if again is not None else ""
    firsts = [n for n in walk(twin.body) if n.type == "call_expression" and source.text(n) == text]
    earlier = effects(source, twin.body)
    between = source.data[twin.node.end_byte : loop.node.start_byte].decode()
    names = mentions(source, again)
    if again is None or not firsts or base in names | earlier.mentions or names & (earlier.written | earlier.declared):
        return None
    if any(f"{name} {sign}=" in between or f"{name} =" in between for name in names for sign in "+-*/"):
        return None
    keep = source.fresh("kept")
    holds = f"sizeof(*{base}) == sizeof(float)"
    start = twin.body.start_byte + 1
    lines = f"\nconst float {keep} = {text};\nif ({holds}) {{\n{base}[{index}] = {keep};\n}}"
    read = f"({holds} ? static_cast<float>({base}[{index}]) : {text})"
    splices = [(start, start, lines), (again.start_byte, again.end_byte, read)]
    return source.splice(splices + [(n.start_byte, n.end_byte, keep) for n in firsts])


def _only_fold(source: Source, loop: Loop) -> tuple[Accumulator, Node, str] | None:
    """(fold, folded value, its text with the one local name written out) if the body does nothing else."""
    nodes = [n for n in statements(loop.body) if n.type != "comment"]
    if not nodes or len(nodes) > 2 or nodes[-1].type != "expression_statement":
        return None
    assignment = nodes[-1].named_children[0]
    fold = fold_of(source, assignment) if assignment.type == "assignment_expression" else None
    right = child(assignment, "right")
    if fold is None or right is None:
        return None
    value = child(right, "consequence") if right.type == "conditional_expression" else right
    text = source.text(value) if value is not None else ""
    if len(nodes) == 2:
        declarator = child(nodes[0], "declarator")
        initial = child(declarator, "value")
        if initial is None or source.text(child(declarator, "declarator") or nodes[0]) != text:
            return None
        text = source.text(initial)
    return (fold, value, text) if value is not None else None


def online_maximum(source: Source, site: str, parameters: Parameters) -> str | None:
    """A maximum and then a sum of exponentials below it, in one pass that rescales the sum as the maximum rises."""
    loop = source.loop(site)
    twin = _twin(source, loop) if loop is not None else None
    if loop is None or twin is None:
        return None
    first, second = _only_fold(source, twin), _only_fold(source, loop)
    if first is None or second is None or first[0].kind != "max" or second[0].kind != "+":
        return None
    call, most, total = second[1], first[0].name, second[0].name
    argument = child(call, "arguments") if _is_float_call(source, call) else None
    function = child(call, "function")
    if argument is None or function is None or source.text(argument) != f"({first[2]} - {most})":
        return None
    between = source.data[twin.node.end_byte : source.span(loop)[0]].decode().strip()
    if "exp" not in source.text(function) or between not in (f"float {total} = 0.0f;", f"float {total} = 0;"):
        return None
    exp, value, raised = source.text(function), source.fresh("value"), source.fresh("raised")
    # Equal maxima are not subtracted: -inf - -inf would be NaN where the two passes give a number.
    lines = [
        between,
        f"/*@{site}*/{loop.header} {{",
        f"const float {value} = {first[2]};",
        f"const float {raised} = {value} > {most} ? {value} : {most};",
        f"const float scaled = {raised} == {most} ? {total} : {total} * {exp}({most} - {raised});",
        f"{total} = scaled + ({value} == -INFINITY ? 0.0f : {exp}({value} - {raised}));",
        f"{most} = {raised};",
        "}",
    ]
    return source.splice([(source.span(twin)[0], loop.node.end_byte, "\n".join(lines))])


EDITS = (
    Edit(
        "polynomial_exp",
        phase=1,
        weight=5.0,
        summary="compute exponentials with an inline polynomial that vectorises",
        apply=polynomial_exp,
        candidates=function_sites,
    ),
    Edit("reciprocal", phase=1, weight=0.8, summary="multiply by an inverse instead of dividing", apply=reciprocal),
    Edit(
        "store_reuse",
        phase=1,
        weight=1.0,
        summary="keep a value in the output instead of computing it again",
        apply=store_reuse,
        slot="reuse",
    ),
    Edit(
        "online_maximum",
        phase=1,
        weight=0.3,
        summary="find a maximum and the sum of exponentials below it in one pass",
        apply=online_maximum,
        slot="reuse",
    ),
)
