//! Set-returning functions whose columns are the elements of arrays: `jsonb_each(x)` is `unnest` over the keys and the values of `x`.

use base::{SqlError, SqlResult};
use sqlparser::ast;

use super::{BoundExpr, Volatility};

/// Such a function.
#[derive(Debug)]
pub struct SetFunction {
    name: &'static str,
    /// The functions that give its columns, each as an array.
    arrays: &'static [&'static str],
    /// What its columns are called; empty where it has one that is called as the function or its alias is.
    pub columns: &'static [&'static str],
}

const fn set(
    name: &'static str,
    arrays: &'static [&'static str],
    columns: &'static [&'static str],
) -> SetFunction {
    SetFunction { name, arrays, columns }
}

static SET_FUNCTIONS: &[SetFunction] = &[
    set("json_array_elements", &["elements of json_array_elements"], &["value"]),
    set("json_array_elements_text", &["elements of json_array_elements_text"], &["value"]),
    set("json_each", &["keys of json_each", "values of json_each"], &["key", "value"]),
    set("json_each_text", &["keys of json_each_text", "values of json_each_text"], &["key", "value"]),
    set("json_object_keys", &["keys of json_object_keys"], &[]),
    set("jsonb_array_elements", &["elements of jsonb_array_elements"], &["value"]),
    set("jsonb_array_elements_text", &["elements of jsonb_array_elements_text"], &["value"]),
    set("jsonb_each", &["keys of jsonb_each", "values of jsonb_each"], &["key", "value"]),
    set("jsonb_each_text", &["keys of jsonb_each_text", "values of jsonb_each_text"], &["key", "value"]),
    set("jsonb_object_keys", &["keys of jsonb_object_keys"], &[]),
    set("regexp_split_to_table", &["regexp_split_to_array"], &[]),
    set("string_to_table", &["string_to_array"], &[]),
];

/// The one of that name.
pub fn set_function(name: &str) -> Option<&'static SetFunction> {
    SET_FUNCTIONS.iter().find(|function| function.name == name)
}

impl SetFunction {
    /// The calls that give its columns, of these arguments.
    pub fn arrays(&self, args: &[ast::Expr]) -> Vec<ast::Expr> {
        self.arrays.iter().map(|array| call(array, args)).collect()
    }

    /// Its arguments are evaluated for each of its columns.
    ///
    /// # Errors
    /// 0A000 where that gives each column another value.
    pub fn require_one_value(&self, arrays: &[BoundExpr]) -> SqlResult<()> {
        if arrays.len() > 1 && arrays.iter().any(|array| array.volatility() == Volatility::Volatile) {
            return Err(SqlError::unsupported(format!("{} of what a volatile function gives", self.name)));
        }
        Ok(())
    }

    /// Whether it has one column, with a name of its own: its alias stands for the value, too.
    pub fn gives_values(&self) -> bool {
        self.columns.len() == 1
    }
}

fn call(name: &str, args: &[ast::Expr]) -> ast::Expr {
    let unnamed = |arg: &ast::Expr| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg.clone()));
    ast::Expr::Function(ast::Function {
        name: ast::ObjectName(vec![ast::ObjectNamePart::Identifier(ast::Ident::with_quote('"', name))]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: args.iter().map(unnamed).collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
