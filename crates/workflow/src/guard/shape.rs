//! Recognises in the parser's tree what the author wrote: keys, operators and macros.

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, operators};

use super::node::{Binary, LoopKind};

/// Whether this is `x["key"]`.
pub(super) fn is_key(call: &CallExpr) -> bool {
    let indexes = call.func_name == operators::INDEX && call.args.len() == 2;
    indexes && call.args.get(1).is_some_and(|index| text(index).is_some())
}

/// The operand and key of `x.key` or `x["key"]`.
pub(super) fn selection(expression: &IdedExpr) -> Option<(&IdedExpr, &str)> {
    if let Expr::Select(select) = &expression.expr {
        return (!select.test).then_some((&*select.operand, select.field.as_str()));
    }
    let Expr::Call(call) = &expression.expr else {
        return None;
    };
    if call.func_name != operators::INDEX {
        return None;
    }
    let [operand, index] = call.args.as_slice() else {
        return None;
    };
    Some((operand, text(index)?))
}

/// The number of the literal in `x["key"]`.
pub(super) fn key_literal(expression: &IdedExpr) -> Option<u64> {
    let Expr::Call(call) = &expression.expr else {
        return None;
    };
    Some(call.args.get(1)?.id)
}

/// The text of a string literal.
pub(super) fn text(expression: &IdedExpr) -> Option<&str> {
    let Expr::Literal(LiteralValue::String(text)) = &expression.expr else {
        return None;
    };
    Some(text.inner())
}

pub(super) fn binary(name: &str) -> Option<Binary> {
    Some(match name {
        operators::ADD => Binary::Add,
        operators::SUBSTRACT => Binary::Subtract,
        operators::MULTIPLY => Binary::Multiply,
        operators::DIVIDE => Binary::Divide,
        operators::MODULO => Binary::Modulo,
        operators::EQUALS => Binary::Equal,
        operators::NOT_EQUALS => Binary::Unequal,
        operators::LESS => Binary::Less,
        operators::LESS_EQUALS => Binary::LessOrEqual,
        operators::GREATER => Binary::Greater,
        operators::GREATER_EQUALS => Binary::GreaterOrEqual,
        operators::IN => Binary::In,
        _ => return None,
    })
}

/// What a macro was before the parser expanded it: its kind, its filter and its body.
///
/// The parser writes `all` as `@result && body`, `exists` as `@result || body`, `exists_one` as
/// `body ? @result + 1 : @result`, `map` as `@result + [body]`, and `filter`, and `map` with three
/// arguments, as `filter ? @result + [body] : @result`.
pub(super) fn shape(each: &ComprehensionExpr) -> Option<(LoopKind, Option<&IdedExpr>, &IdedExpr)> {
    if each.iter_var2.is_some() {
        return None;
    }
    let Expr::Call(step) = &each.loop_step.expr else {
        return None;
    };
    match (step.func_name.as_str(), step.args.as_slice()) {
        (operators::LOGICAL_AND, [_, body]) => Some((LoopKind::All, None, body)),
        (operators::LOGICAL_OR, [_, body]) => Some((LoopKind::Exists, None, body)),
        (operators::ADD, [_, item]) => Some((LoopKind::Collect, None, only_item(item)?)),
        (operators::CONDITIONAL, [condition, grown, _]) => {
            let Expr::Call(grown) = &grown.expr else {
                return None;
            };
            match only_item(grown.args.get(1)?) {
                Some(body) => Some((LoopKind::Collect, Some(condition), body)),
                None => Some((LoopKind::ExistsOne, None, condition)),
            }
        }
        _ => None,
    }
}

fn only_item(list: &IdedExpr) -> Option<&IdedExpr> {
    let Expr::List(list) = &list.expr else {
        return None;
    };
    list.elements.first()
}
