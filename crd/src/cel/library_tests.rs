//! The libraries of Kubernetes 1.36 (apiserver `pkg/cel/environment/base.go`, cel-go 0.26). Each expression is checked and
//! evaluated as one of a policy.

use std::sync::Arc;

use super::types::{Declarations, compile};
use super::*;

/// Returns the value of an expression, or the errors of its compilation or evaluation.
fn run(text: &str) -> Result<String, String> {
    let declarations = Declarations { has_params: true, ..Declarations::default() };
    let (expr, ty) = compile(text, &declarations)?;
    let program = Program { expr: Arc::new(expr), uses_old: false };
    let own = serde_json::json!({"n": 3, "text": "abc", "list": [3, 1, 2], "map": {"b": 1, "a": 2.5}});
    let mut input = Input::default();
    for name in ["object", "oldObject"] {
        input.set(name, Val::of(&own, None));
    }
    let shown = match program.run(&input, &mut Budget::new()) {
        Ok(value) if value.type_name() == "optional_type" => format!("{ty:?}"),
        Ok(value) => shown::shown(&value),
        Err(Failure::Error(why)) => return Err(why),
        Err(other) => return Err(format!("{other:?}")),
    };
    Ok(shown)
}

/// Reports all rows that differ.
fn assert_rows(rows: &[(&str, Result<&str, &str>)]) {
    let mut wrong = Vec::new();
    for (text, want) in rows {
        let found = run(text);
        let same = match (&found, want) {
            (Ok(found), Ok(want)) => found == want,
            (Err(found), Err(want)) => found.contains(want),
            _ => false,
        };
        if !same {
            wrong.push(format!("{text}\n    want {want:?}\n    got  {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn assert_true(texts: &[&str]) {
    assert_rows(&texts.iter().map(|text| (*text, Ok("true"))).collect::<Vec<_>>());
}

/// cel-go `ext/strings_test.go`.
#[test]
fn strings_are_those_of_upstream() {
    assert_true(&[
        "'tacocat'.charAt(3) == 'o' && 'tacocat'.charAt(7) == ''",
        "'tacocat'.indexOf('') == 0 && 'tacocat'.indexOf('ac') == 1 && 'tacocat'.indexOf('none') == -1",
        "'tacocat'.indexOf('', 3) == 3 && 'tacocat'.indexOf('a', 3) == 5 && 'tacocat'.indexOf('a', 30) == -1",
        "'ta©o©αT'.indexOf('©', 3) == 4 && 'ta©o©αT'.indexOf('©α', 5) == -1",
        "''.lastIndexOf('@@') == -1 && 'tacocat'.lastIndexOf('') == 7 && 'tacocat'.lastIndexOf('at') == 5",
        "'tacocat'.lastIndexOf('', 3) == 3 && 'tacocat'.lastIndexOf('a', 3) == 1",
        "'ta©o©αT'.lastIndexOf('©', 3) == 2 && 'ta©o©αT'.lastIndexOf('©α', 4) == 4",
        "'hello wello'.lastIndexOf('ello', 6) == 1 && 'bananananana'.lastIndexOf('nana', 7) == 6",
        "'tacocat'.lastIndexOf('a', 30) == -1",
        "'hello hello'.replace('', '_') == '_h_e_l_l_o_ _h_e_l_l_o_'",
        "'hello world events!'.split(' ', 0) == [] && 'o©o©o'.split('©', -1) == ['o', 'o', 'o']",
        "'tacocat'.substring(7) == '' && 'ta©o©αT'.substring(2, 6) == '©o©α'",
        "strings.quote('first\\nsecond') == '\"first\\\\nsecond\"' && strings.quote('') == '\"\"'",
        "strings.quote('%s %s').format(['hello', 'world']) == '\"hello world\"'",
    ]);
    assert_rows(&[
        ("'tacocat'.charAt(30)", Err("index out of range: 30")),
        ("'tacocat'.lastIndexOf('a', -1)", Err("index out of range: -1")),
        ("'tacocat'.substring(40)", Err("index out of range: 40")),
        ("'tacocat'.substring(1, 50)", Err("index out of range: 50")),
        ("'tacocat'.substring(49, 50)", Err("index out of range: 49")),
        ("'tacocat'.substring(4, 3)", Err("invalid substring range. start: 4, end: 3")),
        // A later version of the library has it.
        ("'gums'.reverse()", Err("found no matching overload for 'reverse' applied to 'string.()'")),
    ]);
}

/// cel-go `ext/formatting_test.go`.
#[test]
fn templates_are_filled_as_upstream() {
    let space = "\u{202f}\u{d7}\u{202f}10\u{2070}\u{b3}";
    let scientific = format!("1.052033{space}");
    assert_rows(&[
        ("'no substitution'.format([])", Ok("no substitution")),
        ("'%%%s%%'.format(['text'])", Ok("%text%")),
        ("'%d %d, %s %s'.format([1, 2, 'A', 'B'])", Ok("1 2, A B")),
        ("'%.3f'.format([1.2345])", Ok("1.234")),
        ("'%f'.format([2.71828])", Ok("2.718280")),
        ("'%b %b %b'.format([5, -5, true])", Ok("101 -101 1")),
        ("'%o %o'.format([11, -11])", Ok("13 -13")),
        ("'%x %X %x'.format([30, 30, -30])", Ok("1e 1E -1e")),
        ("'%x %X'.format(['Hello', b'byte'])", Ok("48656c6c6f 62797465")),
        ("'%.6e'.format([1052.032911275])", Ok(&scientific)),
        ("'%s'.format([2.71])", Ok("2.71")),
        ("'%s'.format([[2.71]])", Ok("[2.710000]")),
        ("'%s'.format([0.000000002])", Ok("2e-09")),
        ("'%f %f'.format(['NaN', '-Infinity'])", Ok("NaN -\u{221e}")),
        ("'%s'.format([double('Inf')])", Ok("+Inf")),
        ("'%s'.format([null])", Ok("null")),
        ("'%s'.format([b'xyz'])", Ok("xyz")),
        ("'type is %s'.format([type('a')])", Ok("type is string")),
        ("'%s'.format([timestamp('2023-02-03T23:31:20+00:00')])", Ok("2023-02-03T23:31:20Z")),
        ("'%s %s'.format([duration('1h45m47s'), duration('2ns')])", Ok("6347s 0.000000002s")),
        (
            "'%s'.format([['abc', 3.14, null, [9, 8], timestamp('2023-02-03T23:31:20Z')]])",
            Ok("[\"abc\", 3.140000, null, [9, 8], timestamp(\"2023-02-03T23:31:20Z\")]"),
        ),
        (
            "'%s'.format([{'key1': b'xyz', 'key3': null, 'key2': duration('2h')}])",
            Ok("{\"key1\":b\"xyz\", \"key2\":duration(\"7200s\"), \"key3\":null}"),
        ),
        ("'%s'.format([object.map])", Ok("{\"a\":2.500000, \"b\":1}")),
        ("'%s'.format([{'b': {2: [], 1: {}}, 'a': 0}])", Ok("{\"a\":0, \"b\":{1:{}, 2:[]}}")),
        ("'%d %s'.format([object.n, object.list])", Ok("3 [3, 1, 2]")),
        // Templates that only the evaluation knows.
        (
            "('%' + 'a').format([1])",
            Err("could not parse formatting clause: unrecognized formatting clause \"a\""),
        ),
        ("'%d %d %d'.format(object.list.filter(i, i > 1))", Err("index 2 out of range")),
        (
            "'%b'.format([dyn('abc')])",
            Err(
                "error during formatting: only integers and bools can be formatted as binary, was given string",
            ),
        ),
        (
            "'%d'.format([dyn(duration('30m2s'))])",
            Err("decimal clause can only be used on integers, was given google.protobuf.Duration"),
        ),
        // Literal templates.
        ("'%s %s'.format(['abc'])", Err("ERROR: <input>:1:15: index 1 out of range")),
        (
            "'%s %s'.format(['abc', 'def', 'ghi'])",
            Err("too many arguments supplied to string.format (expected 2, got 3)"),
        ),
        ("'filler %'.format([])", Err("unexpected end of string")),
        (
            "'%j'.format([123])",
            Err("could not parse formatting clause: unrecognized formatting clause \"j\""),
        ),
        (
            "'%.34'.format([5.0])",
            Err(
                "could not parse formatting clause: error while parsing precision: could not find end of precision specifier",
            ),
        ),
        (
            "'int is %d'.format([5.2])",
            Err(
                ":21: error during formatting: decimal clause can only be used on integers, was given double",
            ),
        ),
        (
            "'%s'.format([[quantity('1')]])",
            Err("maps, lists, types, durations, and timestamps, was given kubernetes.Quantity"),
        ),
        ("'%.1000000f'.format([1.0])", Err("RuleTooCostly")),
    ]);
}

/// cel-go `ext/lists_test.go` and `cel/library.go`.
#[test]
fn lists_are_those_of_upstream() {
    assert_true(&[
        "lists.range(4) == [0, 1, 2, 3] && lists.range(0) == [] && lists.range(-1) == []",
        "[5, 1, 2, 3].reverse() == [3, 2, 1, 5]",
        "[1, 2, 3, 4].slice(1, 3) == [2, 3] && [1, 2].slice(2, 2) == []",
        "dyn([]).flatten() == [] && dyn([1, 2]).flatten() == [1, 2]",
        "[[1], [2], [], [3, 4]].flatten() == [1, 2, 3, 4]",
        "[[[1], [2]], [[3, 4]]].flatten(2) == [1, 2, 3, 4]",
        "[4, 3, 2, 1].sort() == [1, 2, 3, 4] && ['d', 'a'].sort() == ['a', 'd'] && [].sort() == []",
        "[-3, 1, -5, -2, 4].sortBy(e, -(e * e)) == [-5, 4, -3, -2, 1]",
        "[-3, 1, -5, -2, 4].map(e, e * 2).sortBy(e, -(e * e)) == [-10, 8, -6, -4, 2]",
        "lists.range(3).sortBy(e, -e) == [2, 1, 0]",
        "[{'field': 'lo'}, {'field': 'hi'}].sortBy(m, m.field) == [{'field': 'hi'}, {'field': 'lo'}]",
        "[-2, 5, -2, 1, 1, 5, -2, 1].distinct() == [-2, 5, 1] && [[1], [1], [2]].distinct() == [[1], [2]]",
        "object.list.sort() == [1, 2, 3]",
        // NaN is last.
        "[lists.range(60).map(i, i % 3 == 0 ? double('NaN') : double(-i)).sort()].all(l, \
         l.slice(0, 40).isSorted() && l.slice(40, 60).all(n, n != n))",
        "lists.range(60).sortBy(i, i % 3 == 0 ? double('NaN') : double(-i)).slice(38, 42) == [2, 1, 0, 3]",
        "[1, 2, 3].first().value() == 1 && [1, 2, 3].last().value() == 3 && !object.list.filter(i, false).last().hasValue()",
        "optional.unwrap([optional.of(42), optional.none()]) == [42]",
        "[optional.of(42), optional.none()].unwrapOpt() == [42]",
    ]);
    assert_rows(&[
        (
            "[1, 2, 3, 4].slice(3, 0)",
            Err("cannot slice(3, 0), start index must be less than or equal to end index"),
        ),
        ("[1, 2, 3, 4].slice(0, 10)", Err("cannot slice(0, 10), list is length 4")),
        ("[1, 2, 3, 4].slice(-5, 10)", Err("cannot slice(-5, 10), negative indexes not supported")),
        ("[[1]].flatten(-1)", Err("level must be non-negative")),
        ("dyn({}).flatten()", Err("no such overload")),
        ("dyn(['d', 3].map(x, dyn(x))).sort()", Err("expected type 'string' but found 'int'")),
        ("([dyn('d')] + [dyn(3)]).sort()", Err("list elements must have the same type")),
        ("[[1], [2]].sort()", Err("found no matching overload for 'sort' applied to 'list(list(int)).()'")),
        (
            "[[1]].isSorted()",
            Err("found no matching overload for 'isSorted' applied to 'list(list(int)).()'"),
        ),
        (
            "'abc'.sortBy(e, e)",
            Err("sortBy can only be applied to a list, identifier, comprehension, call or select expression"),
        ),
        ("lists.range(10000000)", Err("RuleTooCostly")),
    ]);
}

/// cel-go `ext/comprehensions_test.go`; `cel.bind`, `reverse` of strings and `%s` of their rows are left out or replaced.
#[test]
fn loops_with_two_variables_are_those_of_upstream() {
    assert_true(&[
        "[1, 2, 3, 4].all(i, v, i < 5 && v > 0) && [1, 2, 3, 4].all(i, v, i < v)",
        "[1, 2, 3, 4].all(i, v, i > v) == false",
        "['hello', 'world', 'hello!', 'worlds'].exists(i, v, v.startsWith('hello') && i == 2)",
        "['a', 'b'].existsOne(i, v, v == 'b') && !['b', 'b'].exists_one(i, v, v == 'b')",
        "['Hello', 'world'].transformList(i, v, '[%d]%s'.format([i, v.lowerAscii()])) == ['[0]hello', '[1]world']",
        "['hello'].transformList(i, v, v.startsWith('greeting'), v) == []",
        "[1, 2, 3].transformList(indexVar, valueVar, (indexVar * valueVar) + valueVar) == [1, 4, 9]",
        "[1, 2, 3].transformList(i, v, i % 2 == 0, (i * v) + v) == [1, 9]",
        "['Hello', 'world'].transformMap(i, v, [v.lowerAscii()]) == {0: ['hello'], 1: ['world']}",
        "['world', 'Hello'].transformMap(i, v, [v.lowerAscii()]).transformList(k, v, v).flatten().sort() == ['hello', 'world']",
        "[1, 2, 3].transformMap(i, v, i % 2 == 0, (i * v) + v) == {0: 1, 2: 9}",
        "'key1:value1 key2:value2'.split(' ').transformMapEntry(i, v, {v.split(':')[0]: v.split(':')[1]}) == {'key1': 'value1', 'key2': 'value2'}",
        "'key1:value1:extra key2:value2 key3'.split(' ').transformMapEntry(i, v, {?v.split(':')[0]: v.split(':')[?1]}) == {'key1': 'value1', 'key2': 'value2'}",
        "{'hello': 'world', 'hello!': 'world'}.all(k, v, k.startsWith('hello') && v == 'world')",
        "{'hello': 'world', 'hello!': 'worlds'}.exists(k, v, k.startsWith('hello') && v.endsWith('world'))",
        "{'Hello': 'world'}.transformList(k, v, '%s=%s'.format([k.lowerAscii(), v])) == ['hello=world']",
        "dyn({'Hello': 'world'}).transformList(k, v, '%s=%s'.format([k.lowerAscii(), v])) == ['hello=world']",
        "{'greeting': 'hello', 'farewell': 'goodbye'}.transformList(k, _, k).sort() == ['farewell', 'greeting']",
        "{'hello': 'world', 'goodbye': 'cruel world'}.transformMap(k, v, v.startsWith('world'), '%s, %s!'.format([k, v])) == {'hello': 'hello, world!'}",
        "{'hello': 'world'}.transformMapEntry(k, v, {v: k}) == {'world': 'hello'}",
        "{'hello': 'world', 'greetings': 'tacocat'}.transformMapEntry(k, v, {}) == {}",
        "object.map.transformMapEntry(k, v, {k: v}).size() == 2 && object.map.all(k, v, v > 0)",
        // Neither copies the list or map for each item.
        "lists.range(20000).transformList(i, v, v).size() == 20000",
        "lists.range(20000).transformMap(i, v, v).size() == 20000",
        "lists.range(20000).map(v, v + 1).filter(v, v > 10).size() == 19990",
    ]);
    assert_rows(&[
        ("[].all(i, i, i < i)", Err("duplicate variable name: i")),
        ("[].all(__result__, i, __result__ < i)", Err("iteration variable overwrites accumulator variable")),
        ("[].all(j, __result__, __result__ < j)", Err("iteration variable overwrites accumulator variable")),
        ("[].exists(i.j, k, i.j < k)", Err("argument must be a simple name")),
        ("[].transformList(j, i.k, j + i.k)", Err("argument must be a simple name")),
        ("1.all(j, k, j < k)", Err("cannot be range")),
        ("{}.transformMapEntry(j, k, 'bad filter', {k: j})", Err("no matching overload")),
        ("[1, 2].transformList(i, v, v % 2 == 0 ? [v] : v)", Err("no matching overload")),
        ("{'hello': 'world'}.transformMapEntry(k, v, []) == {}", Err("no matching overload")),
        ("[1, 1].transformMapEntry(i, v, {v: i})", Err("insert failed: key 1 already exists")),
    ]);
}

/// apiserver `pkg/cel/library/semver_test.go`.
#[test]
fn versions_are_those_of_upstream() {
    assert_true(&[
        "isSemver('1.2.3-beta.1+build.1')",
        "!['', 'v1.0.0', ' 1.0.0', '1. 0.0', '1.0.0 ', '01.01.01', '1', '1.1'].exists(v, isSemver(v))",
        "!['', ' 1.0.0', '1. 0.0', '1.0.0 '].exists(v, isSemver(v, true))",
        "['v1.0.0', '01.01.01', '1', '1.1'].all(v, isSemver(v, true))",
        "semver('v01.01', true) == semver('1.1.0') && semver('1.2.3') != semver('1.0.0')",
        "semver('1.0.0').isLessThan(semver('1.2.3')) && !semver('1.0.0').isLessThan(semver('1.0.0'))",
        "semver('1.2.3').isGreaterThan(semver('1.0.0')) && !semver('1.0.0').isGreaterThan(semver('1.0.0'))",
        "semver('1.2.3').compareTo(semver('1.2.3')) == 0 && semver('1.0.0').compareTo(semver('1.2.3')) == -1",
        "semver('1.0.0-alpha.2').isLessThan(semver('1.0.0-alpha.10')) && semver('1.0.0-rc').isLessThan(semver('1.0.0'))",
        "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3",
    ]);
    assert_rows(&[
        ("semver('v1.0')", Err("No Major.Minor.Patch elements found")),
        ("semver('')", Err("Version string empty")),
        ("semver('1.2.x')", Err("Invalid character(s) found in patch number \"x\"")),
        ("semver('1.02.3')", Err("Minor number must not contain leading zeroes \"02\"")),
        ("semver('1.2-rc', true)", Err("short version cannot contain PreRelease/Build meta data")),
        ("isSemver([1, 2, 3])", Err("found no matching overload for 'isSemver' applied to '(list(int))'")),
    ]);
}

/// apiserver `pkg/cel/library/format_test.go`.
#[test]
fn named_formats_are_those_of_upstream() {
    let names = [
        "dns1123Label",
        "dns1123Subdomain",
        "dns1035Label",
        "qualifiedName",
        "dns1123LabelPrefix",
        "dns1123SubdomainPrefix",
        "dns1035LabelPrefix",
        "labelValue",
        "uri",
        "uuid",
        "byte",
        "date",
        "datetime",
    ];
    for name in names {
        let text = format!("format.named('{name}').value() == format.{name}()");
        assert_eq!(run(&text), Ok("true".to_owned()), "{text}");
    }
    assert_true(&[
        "!format.named('unknown').hasValue() && format.date() != format.datetime()",
        "!format.dns1123Label().validate('my-label-name').hasValue()",
        "!format.dns1123Subdomain().validate('apiextensions.k8s.io').hasValue()",
        "!format.qualifiedName().validate('apiextensions.k8s.io/v1beta1').hasValue()",
        "!format.dns1123LabelPrefix().validate('my-label-prefix-').hasValue()",
        "!format.dns1123SubdomainPrefix().validate('mysubdomain.prefix.-').hasValue()",
        "!format.dns1035LabelPrefix().validate('my-label-prefix-').hasValue()",
        "!format.uri().validate('http://example.com').hasValue()",
        "!format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()",
        "!format.byte().validate('aGVsbG8=').hasValue()",
        "!format.datetime().validate('2021-01-01T00:00:00Z').hasValue()",
        "format.byte().validate('aGVsbG8').value() == ['invalid base64']",
        "format.date().validate('2020-01-32').value() == ['invalid date']",
        "format.datetime().validate('2020-01-32T00:00:00Z').value() == ['invalid datetime']",
        "format.uuid().validate('x').value() == ['does not match the UUID format']",
        "format.labelValue().validate('my!').value()[0].startsWith('a valid label must be an empty string or consist of')",
        "format.dns1123Label().validate('a b').value()[0].startsWith('a lowercase RFC 1123 label must consist of')",
    ]);
}

/// apiserver `pkg/cel/library/ip_test.go`, `cidr_test.go` and `quantity_test.go`.
#[test]
fn addresses_and_quantities_are_those_of_upstream() {
    assert_true(&[
        "type(ip('192.168.0.1')) == net.IP && type(cidr('192.168.0.0/24')) == net.CIDR",
        "string(ip('192.168.0.1')) == '192.168.0.1' && string(cidr('192.168.0.0/24')) == '192.168.0.0/24'",
        "!isIP('192.168.0.1.0') && !isIP('2001:db8:::68') && !isIP('::ffff:1.2.3.4') && !isIP('fe80::1%eth0')",
        "!ip.isCanonical('2001:DB8::68') && ip.isCanonical('2001:db8::68')",
        "cidr('2001:db8::/32').containsCIDR('2001:db8::/33') && !cidr('192.168.0.0/24').containsCIDR('192.168.0.0/23')",
        "cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24') && !isCIDR('10.0.0.0/08')",
        "quantity('50k').add(quantity('20')) == quantity('50.02k') && quantity('50k').sub(20) == quantity('49980')",
        "quantity('50k').add(20).sub(quantity('100k')).sub(-50000).asInteger() == 20",
        "!quantity('9999999999999999999G').isInteger() && quantity('50').isInteger()",
        "quantity('50.703k').asApproximateFloat() == 50703.0 && quantity('1500m').asApproximateFloat() == 1.5",
        "sign(quantity('-1')) == -1",
    ]);
    let ip = "IP Address \"192.168.0.1.0\" parse error during conversion from string: ParseAddr(\"192.168.0.1.0\"): IPv4 address too long";
    let other = "IP Address \"2001:db8:::68\" parse error during conversion from string: ParseAddr(\"2001:db8:::68\"): each colon-separated field must have at least one digit (at \":68\")";
    let cidr = "network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix(\"192.168.0.0/\"): bad bits after slash: \"\"";
    assert_rows(&[
        ("ip('192.168.0.1.0')", Err(ip)),
        ("ip.isCanonical('127.0.0.1.0')", Err("ParseAddr(\"127.0.0.1.0\"): IPv4 address too long")),
        ("ip('2001:db8:::68')", Err(other)),
        ("ip('1.2.3.04')", Err("IPv4 field has octet with leading zero")),
        ("ip('1.2.3.x')", Err("unexpected character (at \"x\")")),
        ("ip('x')", Err("ParseAddr(\"x\"): unable to parse IP")),
        ("ip('::ffff:1.2.3.4')", Err("IPv4-mapped IPv6 address \"::ffff:1.2.3.4\" is not allowed")),
        ("ip('fe80::1%eth0')", Err("IP address \"fe80::1%eth0\" with zone value is not allowed")),
        ("cidr('192.168.0.0/')", Err(cidr)),
        ("cidr('10.0.0.0/33')", Err("netip.ParsePrefix(\"10.0.0.0/33\"): prefix length out of range")),
        (
            "isIP(cidr('192.168.0.0/24'))",
            Err("found no matching overload for 'isIP' applied to '(net.CIDR)'"),
        ),
        ("quantity('10Mo')", Err("quantities must match the regular expression")),
        ("quantity('10Mm')", Err("unable to parse quantity's suffix")),
        ("quantity('9999999999999999999G').asInteger()", Err("cannot convert value to integer")),
        (
            "quantity('1').sign()",
            Err("found no matching overload for 'sign' applied to 'kubernetes.Quantity.()'"),
        ),
        ("isQuantity([1])", Err("found no matching overload for 'isQuantity' applied to '(list(int))'")),
    ]);
}

/// cel-go `cel/library.go` (optionals), `common/types` (conversions), `cel/validator.go` (literals).
#[test]
fn optionals_conversions_and_literals_are_those_of_upstream() {
    assert_true(&[
        "object.?text.optMap(t, t.size()).orValue(0) == 3 && object.?none.optMap(t, t.size()).orValue(0) == 0",
        "object.?list.optFlatMap(l, l[?0]) == optional.of(3) && !object.?list.optFlatMap(l, l[?9]).hasValue()",
        "optional.none().or(optional.of(1)).value() == 1 && {'a': 1}[?'b'].orValue(2) == 2",
        "!optional.ofNonZeroValue(duration('0s')).hasValue() && !optional.ofNonZeroValue({}).hasValue()",
        "[?object.?none, ?object.?n] == [3] && {?'a': object.?none}.size() == 0",
        "type(optional.none()) == optional_type && type(timestamp(0)) == google.protobuf.Timestamp",
        "string(1000000.0) == '1e+06' && string(0.5) == '0.5' && int(duration('1s')) == 1000000000",
        "timestamp('2026-01-02T03:04:05.600+02:00') == timestamp('2026-01-02T01:04:05.6Z')",
        "'abc'.matches('^a.c$') && 'a1b22'.findAll('[0-9]+', 1) == ['1'] && 'abc'.find('x') == ''",
        "sets.contains([1, 2], [1]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [2])",
    ]);
    assert_rows(&[
        ("optional.none().value()", Err("optional.none() dereference")),
        ("int('x')", Err("type conversion error from 'string' to 'int'")),
        ("double('x')", Err("type conversion error from 'string' to 'double'")),
        ("bool('x')", Err("type conversion error from 'string' to 'bool'")),
        ("duration(object.text)", Err("type conversion error from 'string' to 'google.protobuf.Duration'")),
        ("timestamp(object.text)", Err("type conversion error from 'string' to 'google.protobuf.Timestamp'")),
        ("timestamp('2026-01-02 03:04:05Z' + '')", Err("type conversion error from 'string' to")),
        ("string(b'\\xff')", Err("invalid UTF-8 in bytes, cannot convert to string")),
        ("timestamp(253402300800 + 0)", Err("timestamp overflow")),
        // Literals.
        (
            "duration('1d')",
            Err("ERROR: <input>:1:10: invalid duration argument\n | duration('1d')\n | .........^"),
        ),
        ("duration(1)", Err("invalid duration argument")),
        ("timestamp('2026-01-02')", Err("invalid timestamp argument")),
        ("'a'.matches('(')", Err("invalid matches argument")),
        ("[1, 'a']", Err("ERROR: <input>:1:5: expected type 'int' but found 'string'")),
        ("[1, dyn('a')]", Err("expected type 'int' but found 'dyn'")),
        ("{1: 'a', 'b': 2}", Err("expected type 'int' but found 'string'")),
        ("[optional.of(1), 2]", Err("expected type 'optional_type(int)' but found 'int'")),
    ]);
}
