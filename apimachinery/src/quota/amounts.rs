//! Lists of amounts by resource, as quotas, claims and containers have them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

use crate::quantity::Quantity;

/// Amounts by the name of the resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// An amount of a typed list; `None` when there is none that can be read.
pub fn of(list: &BTreeMap<String, Text>, name: &str) -> Option<Quantity> {
    Quantity::parse(&list.get(name)?.0).ok()
}

/// A typed list; what cannot be read is left out.
pub fn parse(list: &BTreeMap<String, Text>) -> Amounts {
    list.iter().filter_map(|(name, text)| Some((name.clone(), Quantity::parse(&text.0).ok()?))).collect()
}

/// The typed form of a list, in canonical writing.
pub fn to_typed(list: &Amounts) -> BTreeMap<String, Text> {
    list.iter().map(|(name, amount)| (name.clone(), Text(amount.to_string()))).collect()
}

/// Adds each of the other's amounts.
pub fn add(list: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let sum = list.get(name).map_or_else(|| amount.clone(), |there| there.plus(amount));
        list.insert(name.clone(), sum);
    }
}

/// Takes the greater of both for each resource.
pub fn max(list: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if list.get(name).is_none_or(|there| there < amount) {
            list.insert(name.clone(), amount.clone());
        }
    }
}

/// By how much `new` is more than `old`, for each resource of `new`; never less than nothing.
pub fn growth(new: &Amounts, old: &Amounts) -> Amounts {
    let grown = |name: &String, amount: &Quantity| match old.get(name) {
        Some(old) if old >= amount => amount.minus(amount),
        Some(old) => amount.minus(old),
        None => amount.clone(),
    };
    new.iter().map(|(name, amount)| (name.clone(), grown(name, amount))).collect()
}

/// The amounts whose names are wanted.
pub fn mask(list: &Amounts, wanted: impl Fn(&str) -> bool) -> Amounts {
    list.iter()
        .filter(|(name, _)| wanted(name))
        .map(|(name, amount)| (name.clone(), amount.clone()))
        .collect()
}

/// The list as texts show it: `a=1,b=2`.
pub fn show(list: &Amounts) -> String {
    let shown: Vec<String> = list.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    shown.join(",")
}
