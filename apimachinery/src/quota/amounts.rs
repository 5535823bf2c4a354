//! Resource lists of quotas, claims and containers.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

use crate::quantity::Quantity;

/// Quantities by resource name.
pub type Amounts = BTreeMap<String, Quantity>;

/// Returns a quantity of a typed list, or `None` if it is absent or invalid.
pub fn of(list: &BTreeMap<String, Text>, name: &str) -> Option<Quantity> {
    Quantity::parse(&list.get(name)?.0).ok()
}

/// Parses a typed list and omits invalid quantities.
pub fn parse(list: &BTreeMap<String, Text>) -> Amounts {
    list.iter().filter_map(|(name, text)| Some((name.clone(), Quantity::parse(&text.0).ok()?))).collect()
}

/// Converts a list to its typed form, with canonical quantities.
pub fn to_typed(list: &Amounts) -> BTreeMap<String, Text> {
    list.iter().map(|(name, amount)| (name.clone(), Text(amount.to_string()))).collect()
}

/// Adds each quantity of the other list.
pub fn add(list: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let sum = list.get(name).map_or_else(|| amount.clone(), |there| there.plus(amount));
        list.insert(name.clone(), sum);
    }
}

/// Sets each resource to the maximum of both lists.
pub fn max(list: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if list.get(name).is_none_or(|there| there < amount) {
            list.insert(name.clone(), amount.clone());
        }
    }
}

/// Returns the increase from `old` to `new` for each resource of `new`; never negative.
pub fn growth(new: &Amounts, old: &Amounts) -> Amounts {
    let grown = |name: &String, amount: &Quantity| match old.get(name) {
        Some(old) if old >= amount => amount.minus(amount),
        Some(old) => amount.minus(old),
        None => amount.clone(),
    };
    new.iter().map(|(name, amount)| (name.clone(), grown(name, amount))).collect()
}

/// Returns the quantities whose names match `wanted`.
pub fn mask(list: &Amounts, wanted: impl Fn(&str) -> bool) -> Amounts {
    list.iter()
        .filter(|(name, _)| wanted(name))
        .map(|(name, amount)| (name.clone(), amount.clone()))
        .collect()
}

/// Formats the list as messages show it: `a=1,b=2`.
pub fn show(list: &Amounts) -> String {
    let shown: Vec<String> = list.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    shown.join(",")
}
