"""Turns a kernel's Python source into a generator that runs in lockstep over many threads.

| in the source                     | becomes                                                            |
|-----------------------------------|--------------------------------------------------------------------|
| `if` without const_expr           | both arms under masks, then a lane-by-lane select of what they set |
| `for i in range(n)`, `while`      | a loop that selects only where lanes have left it                  |
| `and`, `or`, `not`, `x if c else y` | calls that take the right-hand side as a lambda                   |
| a list or dict changed in an `if` or loop | a copy in each arm, joined element by element              |
| a call                            | the call, or `yield from` it where it can block                    |
| `with cute.arch.elect_one():`     | a dynamic `if` that one lane takes                                 |

A helper without @cute.jit stays plain Python, as in the DSL: a dynamic `if` in it is refused.

Line numbers stay those of the reader's file. Only source that the reader or this project wrote is read; the DSL's output
never is. Not covered: try and class statements inside a kernel, `global`, `nonlocal`, `yield` but in plain Python's statements.
"""

from __future__ import annotations

import ast
import copy
import linecache
import pickle
from dataclasses import dataclass
from functools import lru_cache

from ..context import MARK, STATE, NotSimulated, display_name, line_of, not_simulated, text_of

PENDING = "_Pending"
TYPE = "_type"  # Python's own, whatever the kernel calls so
TEMP = "_t_"
INNER = "_inner_"
YIELDED = "_yielded_"
# What only compares and counts: it may be looked at before its turn, unless it divides.
PURE = (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Name, ast.Attribute, ast.Constant)
PURE += (ast.cmpop, ast.boolop, ast.unaryop, ast.operator, ast.expr_context)
DIVIDES = (ast.Div, ast.FloorDiv, ast.Mod)
_YIELDS = (ast.Yield, ast.YieldFrom)
FUNCTIONS = (ast.FunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# What a kernel's function may not hold, and what to write instead.
STATEMENTS = {
    ast.Try: "try inside a kernel; nothing is raised while it runs, so leave `try` out",
    ast.Match: "match inside a kernel; write if and elif",
    ast.Global: "global inside a kernel; read a global without the word, and return what is new",
    ast.Nonlocal: "nonlocal inside a kernel; return what is new",
    ast.Yield: "yield inside a kernel; return a tuple",
    ast.YieldFrom: "yield from inside a kernel; return a tuple",
    ast.Await: "await inside a kernel",
}


@dataclass(frozen=True)
class Rewritten:
    """A rewritten function: call `factory(*free_values)` for the generator function."""

    code: object
    free: tuple
    parameters: tuple  # (name, annotation text)
    globals_used: frozenset
    kind: str  # "kernel", "jit" or "" by its decorator
    imports: bool  # whether its body has an import statement


def source_problem(fn) -> NotSimulated:
    code = fn.__code__
    return NotSimulated(
        f"cannot read the source of {fn.__qualname__} ({display_name(code.co_filename)}:{code.co_firstlineno}); the simulator runs "
        "source: define the kernel in a file or a notebook cell, not with exec, at a bare prompt or under %%time"
    )


@lru_cache(maxsize=512)
def functions_in(text: str, file: str) -> tuple:
    """All functions and lambdas of a file."""
    nodes = ast.walk(ast.parse(text, file))
    return tuple(node for node in nodes if isinstance(node, FUNCTIONS))


def rewrite(fn) -> Rewritten:
    """Rewrite a Python function (unwrapped); cached by its source text."""
    code = fn.__code__
    linecache.checkcache(code.co_filename)
    text = text_of(code.co_filename, fn.__globals__)
    if not text:
        raise source_problem(fn)
    turns = STATE.run is not None and STATE.run.order is not None and STATE.run.order.notes_memory
    result = _rewrite(text, code.co_filename, place_of(code), code.co_name, code.co_freevars, turns)
    if result is None:
        raise source_problem(fn)
    return result


@lru_cache(maxsize=1024)
def _rewrite(text: str, file: str, place: tuple, name: str, free: tuple, turns: bool) -> Rewritten | None:
    try:
        node = find(functions_in(text, file), name, place)
    except SyntaxError:
        return None
    if node is None:
        return None
    # a copy, as rewriting changes it; deepcopy takes three times as long
    own = pickle.loads(pickle.dumps(node))
    if isinstance(own, ast.FunctionDef) and not _kind(own) and _yields(own.body):
        first, last = (ast.parse(text).body[0] for text in (f"{YIELDED} = []", f"return {YIELDED}"))
        for part in (*ast.walk(first), *ast.walk(last)):
            ast.copy_location(part, own.body[0])
        own.body = [first, *(_List().visit(statement) for statement in own.body), last]
    return _compile(own, file, name, free, turns)


def _yields(nodes) -> bool:
    """Whether a function with these statements is a generator, whatever the functions in it are."""
    own = [node for node in nodes if not isinstance(node, FUNCTIONS)]
    return any(isinstance(node, _YIELDS) or _yields(ast.iter_child_nodes(node)) for node in own)


class _List(ast.NodeTransformer):
    """A generator of plain Python, made a function that returns the list of what it yields."""

    def visit_Expr(self, node):
        if isinstance(node.value, _YIELDS):
            how = "append" if isinstance(node.value, ast.Yield) else "extend"
            method = ast.Attribute(ast.Name(YIELDED, ast.Load()), how, ast.Load())
            node.value = ast.Call(method, [node.value.value or ast.Constant(None)], [])
        return ast.fix_missing_locations(node)

    def visit_Return(self, node):
        return ast.fix_missing_locations(ast.copy_location(ast.Return(_load(YIELDED)), node))

    def visit_FunctionDef(self, node):
        return node


def place_of(code) -> tuple:
    """The first line of a function's code; of a lambda's also where its body is, as (line, byte)."""
    inside = [(p[0], p[2]) for p in code.co_positions() if p[2]] if code.co_name == "<lambda>" else ()
    return code.co_firstlineno, max(inside, default=None)


def find(functions: tuple, name: str, place: tuple):
    """The node of the function that has this name and place."""
    first_line, inside = place
    if name == "<lambda>":
        found = [node for node in functions if isinstance(node, ast.Lambda) and node.lineno == first_line]
        if len(found) > 1 and inside is not None:
            spans = ((n, (n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in found)
            # the innermost, which ast.walk gives last
            found = [n for n, begin, end in spans if begin <= inside < end][-1:]
        if len(found) > 1:
            raise NotSimulated(
                f"not simulated: {len(found)} lambdas on line {first_line}, which the simulator cannot tell apart"
            )
        return found[0] if found else None
    for node in functions:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            # Python counts from the first decorator; once the real DSL has compiled a function, its code counts from `def`.
            if first_line in [node.lineno, *(d.lineno for d in node.decorator_list)]:
                return node
    return None


def _compile(node, file: str, name: str, free: tuple, turns: bool) -> Rewritten:
    if isinstance(node, ast.Lambda):
        body = [ast.copy_location(ast.Return(node.body), node.body)]
    else:
        body = node.body
    arguments = node.args
    every = arguments.posonlyargs + arguments.args + arguments.kwonlyargs
    parameters = tuple((a.arg, ast.unparse(a.annotation) if a.annotation else "") for a in every)
    names = {a.arg for a in every} | {a.arg for a in (arguments.vararg, arguments.kwarg) if a}
    kind = _kind(node)
    writer = (_Writer if kind else _PlainWriter)(file, names)
    writer.turns, writer.first = turns, next((a.arg for a in every), "")
    # its own name must not hide a global of that name
    function = _function(INNER, _plain_arguments(arguments), writer.function_body(body))
    outer = _function("_factory_", _taking(free), [function, ast.Return(_load(INNER))])
    for new in (function, outer):
        ast.copy_location(new, node)
    module = ast.Module([outer], [])
    ast.fix_missing_locations(module)
    code = compile(module, file, "exec", dont_inherit=True)  # of our own future statements
    nodes = (node for statement in body for node in ast.walk(statement))
    imports = any(isinstance(node, (ast.Import, ast.ImportFrom)) for node in nodes)
    return Rewritten(code, free, parameters, _global_names(code), kind, imports)


def _kind(node) -> str:
    return next(filter(None, map(_kind_of, getattr(node, "decorator_list", []))), "")


def _kind_of(decorator) -> str:
    text = ast.unparse(decorator).partition("(")[0].rpartition(".")[2]
    return text if text in ("kernel", "jit") else ""


def _plain_arguments(arguments: ast.arguments) -> ast.arguments:
    bare = lambda a: a and ast.arg(a.arg)  # noqa: E731
    none = lambda values: [v and ast.Constant(None) for v in values]  # noqa: E731
    return ast.arguments(
        [bare(a) for a in arguments.posonlyargs],
        [bare(a) for a in arguments.args],
        bare(arguments.vararg),
        [bare(a) for a in arguments.kwonlyargs],
        none(arguments.kw_defaults),
        bare(arguments.kwarg),
        none(arguments.defaults),
    )


def _global_names(code) -> frozenset:
    names = set(code.co_names)
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            names |= _global_names(constant)
    return frozenset(names)


def _assigned(nodes) -> list:
    """Names that the statements bind, in order of appearance; nested functions and comprehensions keep theirs."""
    found = {}

    def walk(node):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = True
            return
        if isinstance(node, (ast.Lambda, *COMPREHENSIONS)):
            for inner in ast.walk(node):
                if isinstance(inner, ast.NamedExpr):
                    found[inner.target.id] = True
            return
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = True
        for child in ast.iter_child_nodes(node):
            walk(child)

    for node in nodes:
        walk(node)
    return list(found)


MUTATORS = frozenset("append extend insert pop remove clear sort reverse update setdefault popitem".split())


def _changed(nodes) -> tuple:
    """(containers, objects): names whose elements the statements change in place; and those whose attributes they change, or
    whose methods they call, which might."""
    containers, objects = {}, {}
    for top in nodes:
        for node in ast.walk(top):
            if _stores_within(node):
                root, through = _root(node)
                (objects if through else containers)[root] = True
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                root, through = _root(node.func.value)
                if node.func.attr in MUTATORS:
                    containers |= {} if through else {root: True}
                elif isinstance(node.func.value, ast.Name) and node.func.value.id != "self":
                    objects[node.func.value.id] = True
    return list(containers), list(objects)


def _stores_within(node) -> bool:
    """Whether this is an element or attribute that a statement sets."""
    return isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store)


def _root(node) -> tuple:
    """The name at the start of a.b[0].c ("" if there is none), and whether an attribute is on the way."""
    through = False
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        through = through or isinstance(node, ast.Attribute)
        node = node.value
    return (node.id if isinstance(node, ast.Name) else ""), through


class _Writer(ast.NodeTransformer):
    """Rewrites one function's statements and expressions."""

    first = ""  # the function's first parameter: what super() is of
    turns = False  # whether another warp may come after a store to an element (`control.turn`)

    def __init__(self, file: str, parameters: set):
        self.file = file
        self.parameters = parameters
        self.nested = 0  # inside a lambda or comprehension: no `yield` there
        self.count = 0
        self.guarded = False  # whether a `return` asks how deep in dynamic code it is
        self.joined: dict = {}  # names that joins read, to be bound before the body
        self.bound = set(parameters)  # names of the function's own
        self.loops: list = []
        self.depth = 0

    # -- helpers

    def refuse(self, node, what: str):
        raise not_simulated(what, line_of(self.file, node.lineno, ""))

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"_{stem}{self.count}_"

    def rt(self, method: str, *args) -> ast.Call:
        return ast.Call(ast.Attribute(_load(MARK), method, ast.Load()), list(args), [])

    def body(self, statements) -> list:
        result = []
        for statement in statements:
            new = self.visit(statement)
            result.extend(new if isinstance(new, list) else [new])
        return result or [ast.Pass()]

    def function_body(self, statements) -> list:
        self.bound.update(_assigned(statements))
        written = self.body(statements)
        first = statements[0]
        head = [_assign("_depth_", self.rt("depth"))] if self.guarded else []
        for name in self.joined:
            if name not in self.parameters:
                head.append(_assign(name, self.rt("unbound", ast.Constant(name))))
        head.append(ast.If(ast.Constant(False), [ast.Expr(ast.Yield(None))], []))
        for statement in head:
            ast.copy_location(statement, first)
        return head + written

    def lazily(self, node) -> ast.Lambda:
        self.nested += 1
        inner = self.visit(node)
        self.nested -= 1
        return ast.Lambda(_taking(()), inner)

    def carried(self, nodes) -> tuple:
        """(names, containers, objects) of the function's own that the statements bind or change."""
        containers, objects = ([n for n in found if n in self.bound] for found in _changed(nodes))
        # of a dataclass, say: they change like lists
        held = [name for name in objects if name != "self"]
        # The DSL does not carry `_`: it may be a number before and a tensor after.
        names = [name for name in dict.fromkeys(_assigned(nodes) + containers + held) if name != "_"]
        self.joined.update(dict.fromkeys(names + objects))
        return names, list(dict.fromkeys(containers + held)), objects

    # -- statements

    def visit_If(self, node):
        names, containers, objects = self.carried(node.body + node.orelse)
        branch, before, after = self.fresh("b"), self.fresh("s"), self.fresh("t")
        test = self.visit(node.test)
        self.depth += 1
        then, orelse = self.body(node.body), self.body(node.orelse) if node.orelse else [ast.Pass()]
        self.depth -= 1
        if _if_constant(node.test):
            return _at(ast.If(test, then, orelse), node)
        out = [_assign(branch, self.rt("branch", test, self._of_the_others(node.orelse)))]
        dynamic = ast.Attribute(_load(branch), "dynamic", ast.Load())
        copied = []  # each arm changes copies of lists and dicts
        if containers:
            copied = [ast.Assign([_tuple(containers, ast.Store())], self.rt("copies", _tuple(containers)))]
        if objects:
            out.append(ast.Expr(_method(branch, "carries", ast.Constant(tuple(objects)), _tuple(objects))))
        out.append(_assign(before, _method(branch, "enter", _tuple(names))))
        out.append(ast.Assign([_tuple(names, ast.Store())], _load(before)))
        if containers:
            out.append(ast.If(dynamic, copied, []))
        out.append(ast.If(_method(branch, "then"), then, []))
        out.append(_assign(after, _tuple(names)))
        restore = ast.Assign([_tuple(names, ast.Store())], _load(before))
        out.append(ast.If(dynamic, [restore, *copy.deepcopy(copied)], []))
        out.append(ast.If(_method(branch, "otherwise"), orelse, []))
        join = _method(branch, "join", ast.Constant(tuple(names)), _load(before), _load(after), _tuple(names))
        out.append(ast.Assign([_tuple(names, ast.Store())], join))
        out = [_at(statement, node) for statement in out]
        # What leaves is refused whatever the condition says in this run: the DSL does not know it.
        for left in _leaving(node.body + node.orelse)[:1]:
            out.insert(1, ast.copy_location(ast.If(dynamic, [self._refused(left)], []), left))
        return out

    def _of_the_others(self, orelse: list):
        """Which lanes that skip the `if` run something else: the tests of `elif`s that only compare are known before."""
        tests = []
        while len(orelse) == 1 and isinstance(orelse[0], ast.If) and _is_pure(orelse[0].test):
            tests.append(copy.deepcopy(orelse[0].test))
            orelse = orelse[0].orelse
        if orelse or not tests:
            return ast.Constant(bool(orelse))
        return self.lazily(ast.BoolOp(ast.Or(), tests) if len(tests) > 1 else tests[0])

    def _refused(self, node):
        """A statement, at `node`'s place, that refuses to leave a function or a loop there."""
        if isinstance(node, ast.Return):
            refusal = self.rt("refuse_return")
        else:
            refusal = _method(self.loops[-1], "refuse_leaving", ast.Constant(type(node).__name__.lower()))
        return ast.copy_location(ast.Expr(refusal), node)

    def visit_For(self, node):
        if node.orelse:
            self.refuse(node.orelse[0], "for … else")
        loop = self.fresh("l")
        head = _assign(loop, self.rt("loop", self.visit(node.iter)))
        names, _, objects = self.carried(node.body)
        names = [n for n in names if n not in _assigned([node.target])]
        shell = ast.For(node.target, _load(loop), [], [])
        looped = self._looped(loop, names, objects, node, shell)
        counters, before = [n for n in _assigned([node.target]) if n != "_"], self.fresh("s")
        self.joined.update(dict.fromkeys(counters))
        if counters:
            kept = _method(loop, "counters", _load(before), _tuple(counters))
            looped.insert(0, _assign(before, _tuple(counters)))
            looped.append(ast.Assign([_tuple(counters, ast.Store())], kept))
        return [_at(s, node) for s in (head, *looped)]

    def visit_While(self, node):
        if node.orelse:
            self.refuse(node.orelse[0], "while … else")
        loop = self.fresh("l")
        head = _assign(loop, self.rt("while_"))
        names, _, objects = self.carried(node.body)
        test = _method(loop, "test", self.visit(node.test), *_if_constant(node.test))
        looped = self._looped(loop, names, objects, node, ast.While(test, [], []))
        # Where a pass has changed nothing, others get a turn: they may write what the loop waits for.
        turn = ast.If(_method(loop, "spins"), [ast.Expr(ast.Yield(_method(loop, "turn")))], [])
        looped[0].body.append(_at(turn, node))
        return [_at(s, node) for s in [head, *looped]]

    def _looped(self, loop: str, names: list, objects: list, node, shell) -> list:
        self.loops.append(loop)
        self.depth += 1
        inner = self.body(node.body)
        self.depth -= 1
        self.loops.pop()
        labels = ast.Constant(tuple(names))

        def carried(method):
            call = _method(loop, method, labels, _tuple(names))
            return ast.Assign([_tuple(names, ast.Store())], call)

        enter = [carried("enter")]
        if objects:
            enter.insert(0, ast.Expr(_method(loop, "carries", ast.Constant(tuple(objects)), _tuple(objects))))
        shell.body = [*enter, *inner, carried("leave")]
        for statement in (*enter, shell.body[-1]):
            _at(statement, node)
        return [shell, carried("finish")]

    def visit_Return(self, node):
        value = self.visit(node.value) if node.value else None
        result = ast.copy_location(ast.Return(value), node)
        if not self.depth:
            return result
        self.guarded = True
        guard = ast.Expr(self.rt("no_return", _load("_depth_")))
        return [ast.copy_location(guard, node), result]

    def visit_Break(self, node):
        guard = ast.Expr(_method(self.loops[-1], "no_leaving", ast.Constant(type(node).__name__.lower())))
        return [ast.copy_location(guard, node), node]

    visit_Continue = visit_Break

    def visit_With(self, node):
        call = node.items[0].context_expr
        elects = getattr(getattr(call, "func", None), "attr", "") == "elect_one"
        if len(node.items) != 1 or not elects:
            self.refuse(node, "with (other than cute.arch.elect_one())")
        equivalent = _at(ast.If(self.rt("elect"), node.body, []), node)
        ast.fix_missing_locations(equivalent)
        names = _assigned(node.body)
        equivalent.test.raw = True  # not to be rewritten again
        written = self.visit_If(equivalent)
        self.joined.update(dict.fromkeys(names))
        for name in names:
            if name != "_":
                written.append(_at(_assign(name, self.rt("stays_inside", ast.Constant(name))), node))
        return written

    def visit_FunctionDef(self, node):
        # within a helper without @cute.jit it is plain Python, too
        staged = any(map(_kind_of, node.decorator_list))
        inner = (_Writer if staged else type(self))(
            self.file, {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        )
        inner.first = next((a.arg for a in node.args.posonlyargs + node.args.args), "")
        inner.turns = self.turns
        if node.args.defaults:
            self.refuse(node, "defaults of a nested function")
        function = _function(node.name, _plain_arguments(node.args), inner.function_body(node.body))
        made = [function, _assign(node.name, self.rt("nested", _load(node.name)))]
        for decorator in reversed(node.decorator_list):
            if _kind_of(decorator) == "kernel":
                self.refuse(node, "a kernel inside a function")
            if _kind_of(decorator) != "jit":
                called = self.visit_Call(ast.copy_location(ast.Call(decorator, [_load(node.name)], []), decorator))
                made.append(_assign(node.name, called))
        return [ast.fix_missing_locations(ast.copy_location(one, node)) for one in made]

    def _stored(self, node, targets):
        """A statement that stores into a container or object. Joins know the function's own; others are asked about."""
        new = self.generic_visit(node)
        nodes, guards = (t for target in targets for t in ast.walk(target)), []
        stores = list(filter(_stores_within, nodes))
        # a caller's, which may be in a dynamic `if` there
        outside = self.parameters if not self.depth else ()
        for store in stores:
            root = _root(store)[0]
            asked = root not in self.bound or (root in outside and isinstance(store, ast.Subscript))
            if asked and isinstance(store.value, (ast.Name, ast.Attribute)):
                guards.append(ast.Expr(self.rt("changes", _loaded(store.value))))
        after = []
        if self.turns and not self.nested and any(isinstance(t, ast.Subscript) for t in stores):
            after = [ast.Expr(self._may_wait(self.rt("turn")))]
        return [_at(guard, node) for guard in guards] + [new] + [_at(turn, node) for turn in after]

    def visit_Assign(self, node):
        return self._stored(node, node.targets)

    def visit_AugAssign(self, node):
        return self._stored(node, [node.target])

    def visit_AnnAssign(self, node):
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        new = ast.Assign([self.visit(node.target)], self.visit(node.value))
        return ast.copy_location(new, node)

    def _not_simulated(self, node):
        self.refuse(node, STATEMENTS[type(node)])

    visit_Try = visit_Global = visit_Nonlocal = visit_Match = visit_Yield = visit_YieldFrom = visit_Await = (
        _not_simulated
    )

    def visit_ClassDef(self, node):
        if [ast.unparse(d).rpartition(".")[2] for d in node.decorator_list] != ["struct"]:
            self.refuse(node, "a class inside a kernel")
        return node  # annotations alone, as they are

    # -- expressions

    def visit_Call(self, node):
        if getattr(node, "raw", False):
            return node
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            return ast.fix_missing_locations(
                ast.copy_location(self.rt("super_of", _load("__class__"), _load(self.first)), node)
            )
        func = self.visit(node.func)
        args = [self.visit(a) for a in node.args]
        keywords = [ast.keyword(k.arg, self.visit(k.value)) for k in node.keywords]
        method = "call_now" if self.nested else "call"
        # Python says that a method is called on the line where its name ends: that of the reader's function.
        called = ast.copy_location(ast.Attribute(_load(MARK), method, ast.Load()), node.func)
        called.lineno, called.col_offset = node.func.end_lineno, node.func.end_col_offset
        call = ast.copy_location(ast.Call(called, [func, *args], keywords), node)
        if self.nested:
            return call
        return ast.copy_location(self._may_wait(call), node)

    def _may_wait(self, call) -> ast.IfExp:
        """A call's value, for which the function waits where it is still to come."""
        kept = ast.NamedExpr(ast.Name(TEMP, ast.Store()), call)
        is_value = ast.Compare(ast.Call(_load(TYPE), [kept], []), [ast.IsNot()], [_load(PENDING)])
        return ast.IfExp(is_value, _load(TEMP), ast.YieldFrom(ast.Attribute(_load(TEMP), "steps", ast.Load())))

    def visit_Attribute(self, node):
        node = self.generic_visit(node)
        if node.attr == "__dict__":
            self.refuse(node, ".__dict__")
        if node.attr == "__class__":
            return ast.fix_missing_locations(ast.copy_location(self.rt("class_of", node.value), node))
        if node.attr not in ("shape", "stride") or not isinstance(node.ctx, ast.Load):
            return node
        # of a tensor or layout, perhaps: what ? is there
        asked = self.rt("extents", node.value, ast.Constant(node.attr))
        return ast.copy_location(asked, node)

    def visit_BoolOp(self, node):
        method = "and_" if isinstance(node.op, ast.And) else "or_"
        result = self.visit(node.values[0])
        for value in node.values[1:]:
            result = self.rt(method, result, self.lazily(value))
        return ast.copy_location(result, node)

    def visit_UnaryOp(self, node):
        node = self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return ast.copy_location(self.rt("not_", node.operand), node)
        return node

    def visit_Compare(self, node):
        node = self.generic_visit(node)
        held = any(isinstance(side, (ast.Tuple, ast.List)) for side in (node.left, *node.comparators))
        if len(node.ops) == 1 and not isinstance(node.ops[0], (ast.In, ast.NotIn)) and not held:
            return node
        names = ast.Constant(tuple(type(op).__name__ for op in node.ops))
        chain = self.rt("compare", names, node.left, *node.comparators)
        return ast.copy_location(chain, node)

    def visit_IfExp(self, node):
        new = self.rt("choose", self.visit(node.test), self.lazily(node.body), self.lazily(node.orelse))
        return ast.copy_location(new, node)

    def _within(self, node):
        """A lambda, or a comprehension."""
        self.nested += 1
        node = self.generic_visit(node)
        self.nested -= 1
        return node

    visit_Lambda = visit_SetComp = visit_DictComp = visit_GeneratorExp = _within

    def visit_ListComp(self, node):
        """A list whose elements call something that may wait is made in a loop of control's."""
        clause, *more = node.generators
        names = clause.target.elts if isinstance(clause.target, ast.Tuple) else [clause.target]
        calls = any(isinstance(n, ast.Call) for n in ast.walk(node.elt))
        plain = calls and all(isinstance(name, ast.Name) for name in names)
        if self.nested or more or not plain:
            return self._within(node)
        bound = _taking(name.id for name in names)
        # makes it a generator
        never = ast.IfExp(ast.Constant(False), ast.Yield(None), ast.Constant(None))
        both = ast.Tuple([self.visit(node.elt), never], ast.Load())
        element = ast.Lambda(bound, ast.Subscript(both, ast.Constant(0), ast.Load()))
        keep = ast.Constant(None)
        if clause.ifs:
            self.nested += 1
            tests = [self.visit(test) for test in clause.ifs]
            self.nested -= 1
            keep = ast.Lambda(copy.deepcopy(bound), tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests))
        one = ast.Constant(not isinstance(clause.target, ast.Tuple))
        made = ast.YieldFrom(self.rt("collect", self.visit(clause.iter), element, keep, one))
        return ast.copy_location(made, node)


def _leaving(statements, kinds=(ast.Return, ast.Break, ast.Continue)) -> list:
    """The statements among these, or within them, that leave the function or the loop around them."""
    found = []
    for statement in statements:
        if isinstance(statement, kinds):
            found.append(statement)
        elif isinstance(statement, ast.If):
            found += _leaving(statement.body + statement.orelse, kinds)
        elif isinstance(statement, (ast.For, ast.While)):
            found += _leaving(statement.body, ast.Return)  # break and continue leave that loop only
    return found


def _at(new, node):
    """Give a generated statement the first line of `node` (not its whole extent: Python would report the last line)."""
    new.lineno = new.end_lineno = node.lineno
    new.col_offset, new.end_col_offset = node.col_offset, node.col_offset + 1
    return new


class _PlainWriter(_Writer):
    """For helpers without a decorator: the DSL runs them as plain Python while it traces, so only their calls change."""

    visit_If = visit_For = visit_While = visit_With = ast.NodeTransformer.generic_visit
    visit_Return = visit_Break = visit_Continue = ast.NodeTransformer.generic_visit
    visit_BoolOp = visit_UnaryOp = visit_Compare = visit_IfExp = visit_Try = ast.NodeTransformer.generic_visit

    def visit_ExceptHandler(self, node):
        new = self.generic_visit(node)
        new.body.insert(0, _at(ast.Expr(self.rt("not_for_the_reader")), node))
        return new


def _is_pure(test) -> bool:
    nodes = list(ast.walk(test))
    divisions = (x for x in nodes if isinstance(x, ast.BinOp) and isinstance(x.op, DIVIDES))
    return all(isinstance(x, PURE) for x in nodes) and all(isinstance(x.right, ast.Constant) for x in divisions)


def _if_constant(test) -> tuple:
    """An argument that says so where a condition is a call of const_expr: Python decides, and the DSL stages nothing."""
    name = ast.unparse(test.func).rpartition(".")[2] if isinstance(test, ast.Call) else ""
    return (ast.Constant(True),) if name == "const_expr" else ()


def _loaded(node):
    """A copy of a name or attribute that reads it."""
    if isinstance(node, ast.Attribute):
        return ast.Attribute(copy.deepcopy(node.value), node.attr, ast.Load())
    return ast.Name(node.id, ast.Load())


def _function(name: str, arguments: ast.arguments, body: list) -> ast.FunctionDef:
    return ast.FunctionDef(name, arguments, body, decorator_list=[], returns=None, type_params=[])


def _taking(names) -> ast.arguments:
    """Parameters without more than their names."""
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _tuple(names, context=None) -> ast.Tuple:
    context = context or ast.Load()
    return ast.Tuple([ast.Name(n, context) for n in names], context)


def _assign(name: str, value) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _method(name: str, method: str, *args) -> ast.Call:
    return ast.Call(ast.Attribute(_load(name), method, ast.Load()), list(args), [])
