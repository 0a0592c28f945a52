//! What fits which template, and with what values.

use super::*;
use serde_json::json;

#[track_caller]
fn values(template: &str, uri: &str) -> Option<Value> {
    let parsed = UriTemplate::parse(template).unwrap_or_else(|error| panic!("{template}: {error}"));
    parsed.values(uri).map(Value::Object)
}

#[test]
fn a_uri_fits_its_template() {
    for (template, uri, fits) in [
        ("order://{id}", "order://17", true),
        ("order://{id}", "order://", false),
        ("order://{id}", "order://17/items", false),
        ("order://{id}/items", "order://17/items", true),
        ("order://{id}/items/{n}", "order://a/items/b", true),
        ("file:///{+path}", "file:///a/b/c.txt", true),
        ("file:///{+path}.txt", "file:///a/b/c.txt", true),
        ("file:///{+path}.md", "file:///a/b/c.txt", false),
        ("search://all{?q,n}", "search://all", true),
        ("search://all{?q,n}", "search://all?q=x", true),
        ("search://all{?q,n}", "search://allx", false),
        ("a://{x}-{y}", "a://1-2-3", true),
        ("note://rules", "note://rules", true),
        ("a://{x}{", "a://1{", false),
    ] {
        assert_eq!(matches(template, uri), fits, "{template} {uri}");
    }
    let longest = "x".repeat(UriTemplate::LONGEST_URI - 2);
    assert!(matches("a:{+x}", &format!("a:{longest}")));
    assert!(!matches("a:{+x}", &format!("a:{longest}x")));
}

/// What RFC 6570 makes of values is read back as those values, where that can be told.
#[test]
fn the_examples_of_the_rfc_are_read_back() {
    let red = json!(["red", "green", "blue"]);
    for (template, uri, expected) in [
        ("{var}", "value", json!({"var": "value"})),
        (
            "{hello}",
            "Hello%20World%21",
            json!({"hello": "Hello World!"}),
        ),
        ("{+var}", "value", json!({"var": "value"})),
        (
            "{+hello}",
            "Hello%20World!",
            json!({"hello": "Hello World!"}),
        ),
        ("{+half}", "50%25", json!({"half": "50%"})),
        ("{+path}/here", "/foo/bar/here", json!({"path": "/foo/bar"})),
        (
            "here?ref={+path}",
            "here?ref=/foo/bar",
            json!({"path": "/foo/bar"}),
        ),
        ("X{#var}", "X#value", json!({"var": "value"})),
        (
            "X{#hello}",
            "X#Hello%20World!",
            json!({"hello": "Hello World!"}),
        ),
        (
            "map?{x,y}",
            "map?1024,768",
            json!({"x": "1024", "y": "768"}),
        ),
        (
            "{x,hello,y}",
            "1024,Hello%20World%21,768",
            json!({"x": "1024", "hello": "Hello World!", "y": "768"}),
        ),
        (
            "{+x,hello,y}",
            "1024,Hello%20World!,768",
            json!({"x": "1024", "hello": "Hello World!", "y": "768"}),
        ),
        (
            "{#x,hello,y}",
            "#1024,Hello%20World!,768",
            json!({"x": "1024", "hello": "Hello World!", "y": "768"}),
        ),
        ("X{.var}", "X.value", json!({"var": "value"})),
        ("X{.x,y}", "X.1024.768", json!({"x": "1024", "y": "768"})),
        ("{/var}", "/value", json!({"var": "value"})),
        (
            "{/var,x}/here",
            "/value/1024/here",
            json!({"var": "value", "x": "1024"}),
        ),
        ("{;x,y}", ";x=1024;y=768", json!({"x": "1024", "y": "768"})),
        (
            "{;x,y,empty}",
            ";x=1024;y=768;empty",
            json!({"x": "1024", "y": "768", "empty": ""}),
        ),
        ("{?x,y}", "?x=1024&y=768", json!({"x": "1024", "y": "768"})),
        (
            "{?x,y,empty}",
            "?x=1024&y=768&empty=",
            json!({"x": "1024", "y": "768", "empty": ""}),
        ),
        ("?fixed=yes{&x}", "?fixed=yes&x=1024", json!({"x": "1024"})),
        (
            "{&x,y,empty}",
            "&x=1024&y=768&empty=",
            json!({"x": "1024", "y": "768", "empty": ""}),
        ),
        ("{var:3}", "val", json!({"var": "val"})),
        (
            "{list}",
            "red,green,blue",
            json!({"list": "red,green,blue"}),
        ),
        ("{list*}", "red,green,blue", json!({"list": red})),
        ("{+path:6}here", "/foo/bhere", json!({"path": "/foo/b"})),
        ("{+list*}", "red,green,blue", json!({"list": red})),
        ("{#path:6}here", "#/foo/bhere", json!({"path": "/foo/b"})),
        ("{#list*}", "#red,green,blue", json!({"list": red})),
        ("X{.var:3}", "X.val", json!({"var": "val"})),
        ("X{.list*}", "X.red.green.blue", json!({"list": red})),
        ("{/var:1,var}", "/v/value", json!({"var": "value"})),
        ("{/list*}", "/red/green/blue", json!({"list": red})),
        (
            "{/list*,path:4}",
            "/red/green/blue/%2Ffoo",
            json!({"list": ["red", "green", "blue", "/foo"]}),
        ),
        ("{;hello:5}", ";hello=Hello", json!({"hello": "Hello"})),
        (
            "{;list*}",
            ";list=red;list=green;list=blue",
            json!({"list": red}),
        ),
        ("{?var:3}", "?var=val", json!({"var": "val"})),
        (
            "{?list*}",
            "?list=red&list=green&list=blue",
            json!({"list": red}),
        ),
        (
            "{&list*}",
            "&list=red&list=green&list=blue",
            json!({"list": red}),
        ),
    ] {
        assert_eq!(values(template, uri), Some(expected), "{template} {uri}");
    }
}

#[test]
fn what_can_be_missing_may_be_missing() {
    for (template, uri, expected) in [
        ("x://a{/b,c}", "x://a", json!({})),
        ("x://a{/b,c}", "x://a/1", json!({"b": "1"})),
        ("x://a{/b}", "x://a/", json!({"b": ""})),
        ("x://a{.b}", "x://a", json!({})),
        ("x://a{;b,c}", "x://a;c=2", json!({"c": "2"})),
        ("x://a{#b}", "x://a", json!({})),
        ("x://a{?b}{#c}", "x://a#d", json!({"c": "d"})),
        ("x://{a}{?b}", "x://1?b=2", json!({"a": "1", "b": "2"})),
        ("x://{a,b,c}", "x://1,2", json!({"a": "1", "b": "2"})),
    ] {
        assert_eq!(values(template, uri), Some(expected), "{template} {uri}");
    }
    for (template, uri) in [
        ("x://{a}", "x://"),
        ("x://{+a}", "x://"),
        ("x://a{/b}", "x://a/1/2"),
        ("x://a{/b}", "x://ab"),
        ("x://a{;b}", "x://a;bc=1"),
        ("x://a{?b}", "x://a&b=1"),
        ("x://a{#b}", "x://ab"),
    ] {
        assert_eq!(values(template, uri), None, "{template} {uri}");
    }
}

#[test]
fn a_query_is_read_by_its_names() {
    let template = "s://all{?q,n}{&more*}";
    for (uri, expected) in [
        ("s://all?n=1&q=a", json!({"q": "a", "n": "1"})),
        ("s://all?q=a&other=5&n=1", json!({"q": "a", "n": "1"})),
        ("s://all?q=a&q=b", json!({"q": "a"})),
        ("s://all?q=a=b", json!({"q": "a=b"})),
        ("s://all?q", json!({"q": ""})),
        ("s://all?", json!({})),
        (
            "s://all?more=1&q=a&more=2",
            json!({"q": "a", "more": ["1", "2"]}),
        ),
        ("s://all&more=1", json!({"more": ["1"]})),
        ("s://all?%71=a", json!({"q": "a"})),
    ] {
        assert_eq!(values(template, uri), Some(expected), "{uri}");
    }
    assert_eq!(
        values("f:///{+path}{?v}{#part}", "f:///a/b?v=2#c"),
        Some(json!({"path": "a/b", "v": "2", "part": "c"}))
    );
    assert_eq!(
        values("f:///{+path}", "f:///a/b?v=2#c"),
        Some(json!({"path": "a/b?v=2#c"}))
    );
}

#[test]
fn what_comes_first_takes_as_much_as_it_can() {
    for (template, uri, expected) in [
        ("{a}-{b}", "1-2-3", json!({"a": "1-2", "b": "3"})),
        ("{a}{b}", "123", json!({"a": "12", "b": "3"})),
        ("{a:1}{b}", "123", json!({"a": "1", "b": "23"})),
        ("{+a}/{b}", "1/2/3", json!({"a": "1/2", "b": "3"})),
        ("{a,b}", "1,2,3", json!({"a": "1", "b": "2,3"})),
        ("{a*,b}", "1,2,3", json!({"a": ["1", "2"], "b": "3"})),
        (
            "{;l*,x}",
            ";l=1;l=2;x=3",
            json!({"l": ["1", "2"], "x": "3"}),
        ),
        ("x{.a}", "x.tar.gz", json!({"a": "tar.gz"})),
    ] {
        assert_eq!(values(template, uri), Some(expected), "{template} {uri}");
    }
}

#[test]
fn one_name_means_one_thing() {
    assert_eq!(values("{a}/{a}", "1/1"), Some(json!({"a": "1"})));
    assert_eq!(values("{a}/{a}", "1/2"), None);
    assert_eq!(values("{a:2}/{a}", "ab/abc"), Some(json!({"a": "abc"})));
    assert_eq!(values("{a}/{a:2}", "abc/ab"), Some(json!({"a": "abc"})));
    assert_eq!(values("{a:2}/{a}", "xy/abc"), None);
    let template = UriTemplate::parse("{a:2}/{a}{?b,c}").unwrap();
    assert_eq!(template.variables(), ["a", "b", "c"]);
}

#[test]
fn values_are_decoded_and_characters_stay_whole() {
    assert_eq!(values("{a}", "%C3%A9"), Some(json!({"a": "é"})));
    assert_eq!(values("{a}", "é"), Some(json!({"a": "é"})));
    assert_eq!(values("{a}", "a+b"), Some(json!({"a": "a+b"})));
    assert_eq!(
        values("{a:1}{b}", "%C3%A9é"),
        Some(json!({"a": "é", "b": "é"}))
    );
    assert_eq!(
        values("{a}{b}", "é%C3%A9"),
        Some(json!({"a": "é", "b": "é"}))
    );
    assert_eq!(
        values("{a}4{b}", "1%42%4243"),
        Some(json!({"a": "1BB", "b": "3"}))
    );
    assert_eq!(values("x://é/{a}", "x://é/1"), Some(json!({"a": "1"})));
    assert_eq!(values("x://é/{a}", "x://%C3%A9/1"), Some(json!({"a": "1"})));
    for malformed in ["%", "%4", "%zz", "a%", "%C3", "%A9", "%FF"] {
        assert_eq!(values("{a}", malformed), None, "{malformed}");
        assert_eq!(
            values("{?a}", &format!("?a={malformed}")),
            None,
            "{malformed}"
        );
    }
}

#[test]
fn what_is_no_template_is_told_where() {
    let error = |text: &str| UriTemplate::parse(text).unwrap_err().to_string();
    for (text, why) in [
        ("x://{a", "brace at 4 is never closed"),
        ("x://a}", "brace at 5 closes nothing"),
        ("x://{}", "`` at 5 is no name"),
        ("x://{a,}", "`` at 7 is no name"),
        ("x://{?}", "`` at 6 is no name"),
        ("x://{a b}", "`a b` at 5 is no name"),
        ("x://{a{b}", "`a{b` at 5 is no name"),
        ("x://{a..b}", "`a..b` at 5 is no name"),
        ("x://{%4}", "`%4` at 5 is no name"),
        ("x://{=a}", "operator `=` at 5"),
        ("x://{|a}", "operator `|` at 5"),
        ("x://{a:}", "`:` at 6 says nothing"),
        ("x://{a:0}", "`:0` at 6"),
        ("x://{a:10000}", "`:10000` at 6"),
        ("x://{a:3*}", "`:3*` at 6"),
        ("x://{a**}", "`**` at 6"),
        ("x://a b", "' ' at 5"),
        ("x://a\n", "'\\n' at 5"),
        ("x://%4", "'%' at 4"),
        ("x://<a>", "'<' at 4"),
    ] {
        assert!(error(text).contains(why), "{text}: {}", error(text));
    }
    assert_eq!(
        UriTemplate::parse(&"{a}".repeat(65)),
        Err(TemplateError::TooLarge)
    );
    assert_eq!(
        UriTemplate::parse(&"a".repeat(2_049)),
        Err(TemplateError::TooLarge)
    );
    for text in [
        "",
        "x",
        "{a}",
        "{a.b}",
        "{user-id}",
        "{%41}",
        "{+a_1:9999,b*}",
    ] {
        assert_eq!(UriTemplate::parse(text).unwrap().as_str(), text);
    }
}

/// Every short text of the characters that mean something, against templates of every kind.
#[test]
fn no_uri_is_read_wrongly() {
    const CHARACTERS: [&str; 10] = ["a", "b", "/", "?", "&", "=", ";", ",", "%41", "#"];
    let templates: Vec<_> = [
        "{a}",
        "{a}{b}",
        "{+a}b{b}",
        "{a,b}",
        "{a*,b}",
        "{.a,b}",
        "{/a,b}",
        "{/a*}b",
        "{;a,b}",
        "{;a*,b*}",
        "{?a,b}",
        "{?a*}{&b}{#a}",
        "{a:1}{+b}",
        "{a:1}/{a}",
        "a{/a}{?b}",
    ]
    .into_iter()
    .map(|text| UriTemplate::parse(text).unwrap())
    .collect();
    let mut uris = vec![String::new()];
    for _ in 0..4 {
        let longer = uris.iter().flat_map(|uri| {
            let more = CHARACTERS
                .iter()
                .map(move |character| format!("{uri}{character}"));
            more.collect::<Vec<_>>()
        });
        uris = longer.collect();
        for (uri, template) in uris
            .iter()
            .flat_map(|uri| templates.iter().map(move |t| (uri, t)))
        {
            for value in template.values(uri).iter().flat_map(Map::values) {
                let parts: Vec<_> = match value {
                    Value::Array(parts) => parts.iter().filter_map(Value::as_str).collect(),
                    Value::String(part) => vec![part.as_str()],
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                        panic!("{template} {uri}: {value}")
                    }
                };
                let decoded = uri.replace("%41", "A");
                assert!(
                    parts.iter().all(|part| decoded.contains(part)),
                    "{template} {uri}: {value}"
                );
            }
        }
    }
}

/// Templates and URIs in which everything could be cut everywhere.
#[test]
fn hostile_uris_take_no_longer_than_others() {
    let many = "{a}".repeat(20);
    let long = "a".repeat(UriTemplate::LONGEST_URI);
    assert_eq!(values(&many, &format!("{}/", &long[1..])), None);
    let same = format!("{}{{b}}", "{a:1}".repeat(20));
    assert!(values(&same, &long).is_some());
    let parameters = ";a".repeat(UriTemplate::LONGEST_URI / 2 - 1);
    assert!(values("{;a*}", &parameters).is_some());
    assert_eq!(values("{;a*}/", &parameters), None);
    let query = format!("?{}", "a&".repeat(UriTemplate::LONGEST_URI / 2 - 1));
    assert!(values("{?a*,b,c,d,e,f}", &query).is_some());
}
