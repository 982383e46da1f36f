//! Using a page by keys, pointers and fingers.

use super::*;

/// Pointing at the label of a band shows everything that was ever mapped there.
#[test]
#[ignore = "needs Chromium: cargo xtask test --tier pages"]
fn a_label_tells_of_all_tenants() {
    let Some((names, page)) = super::files::tenants("--html") else {
        return;
    };
    let seen = ask(
        &page,
        WINDOW,
        r##"
        const { picture, life, all } = samara, stage = document.getElementById("marks");
        samara.fit();
        samara.draw();
        const box = stage.getBoundingClientRect(), tips = [];
        for (const band of life.bands) {
            const y = picture.y(picture.axis.height((band.start + band.end) / 2));
            stage.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + 20, clientY: box.top + y, pointerType: "mouse", bubbles: true }));
            const tip = document.getElementById("tip");
            tips.push(tip.hidden ? null : tip.textContent);
        }
        const texts = [], taker = { fillText: text => texts.push(text) };
        picture.names(taker, picture.palette());
        return { tips, gaps: life.bands.filter(band => !band.looks.length).length, texts };"##,
    );
    let tips: Vec<&str> = seen["tips"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let both = |tip: &&&str| names.iter().all(|name| tip.contains(name));
    assert!(tips.iter().any(|tip| both(&tip)), "{seen}");
    let silent = seen["tips"].as_array().unwrap().len() - tips.len();
    assert_eq!(seen["gaps"], silent, "{seen}");
    let texts = seen["texts"].as_array().unwrap();
    let more = |text: &&Value| text.as_str().unwrap().ends_with(" more");
    assert!(texts.iter().any(|text| more(&text)), "{seen}");
}

#[test]
#[ignore = "needs Chromium: cargo xtask test --tier pages"]
fn keys_and_pointers_work() {
    let (page, _) = marks(&[]);
    let seen = ask(
        &page,
        WINDOW,
        r##"
        const { picture, life } = samara, stage = document.getElementById("marks"), steps = [];
        const key = (name, options) => { press(name, options); steps.push(samara.step); };
        key("Home"); key("ArrowRight"); key("ArrowRight", { shiftKey: true }); key("ArrowLeft"); key("PageDown"); key("End");
        const last = life.steps - 1;
        // The list may be some steps behind while these follow each other fast: the longer, the slower the machine.
        while (!document.querySelector(".row[aria-selected=true]")?.textContent.includes(life.text(last))) await frame();

        samara.go(40);
        press("l");
        for (let i = 0; i < 200; i++) press("+");
        const span = () => picture.axis.address(picture.view.high) - picture.axis.address(picture.view.low);
        const pageSpan = span();
        for (let i = 0; i < 200; i++) press("-");
        const wholeSpan = span();
        press("l");
        for (let i = 0; i < 100; i++) press(".");
        const fewSteps = picture.view.to - picture.view.from;
        press("0");
        const whole = picture.view;

        // A click on a rectangle chooses its area and its step.
        samara.draw();
        const big = samara.drawn().sort((a, b) => b.width * b.height - a.width * a.height)[0];
        const box = stage.getBoundingClientRect();
        const at = { clientX: Math.round(box.left + big.x + big.width / 2), clientY: Math.round(box.top + big.y + big.height / 2), pointerId: 1, pointerType: "mouse", bubbles: true };
        stage.setPointerCapture = () => {};
        stage.dispatchEvent(new PointerEvent("pointermove", at));
        const tip = document.getElementById("tip").textContent;
        stage.dispatchEvent(new PointerEvent("pointerdown", at));
        stage.dispatchEvent(new PointerEvent("pointerup", at));
        const detail = document.getElementById("detail").textContent;
        const clicked = samara.step === Math.floor(picture.timeAt(at.clientX - box.left));

        // Two fingers apart: nearer.
        const finger = (id, type, y) => stage.dispatchEvent(new PointerEvent(type, { clientX: box.left + 400, clientY: box.top + y, pointerId: id, pointerType: "touch", bubbles: true }));
        finger(2, "pointerdown", 200); finger(3, "pointerdown", 300); finger(3, "pointermove", 400);
        const pinched = picture.view.high - picture.view.low;
        finger(2, "pointerup", 200); finger(3, "pointerup", 400);
        press("0");
        stage.dispatchEvent(new WheelEvent("wheel", { clientX: box.left + 400, clientY: box.top + 200, deltaY: -300, bubbles: true, cancelable: true }));
        const wheeled = picture.view.high - picture.view.low;

        // Tabs and the theme.
        document.getElementById("tab-areas").click();
        const areas = document.querySelectorAll("#list .row:not([hidden])").length;
        document.getElementById("tab-gaps").click();
        document.querySelector("#list .row").click();
        const theme = document.documentElement.dataset.theme;
        press("t");
        samara.draw();
        const dark = pixel(document.getElementById("areas"), 2, 2);
        return { steps, last, pageSpan, wholeSpan, fewSteps, whole, pinched, wheeled, tip, detail, clicked, areas, theme, dark, now: document.documentElement.dataset.theme, nameless: nameless() };
        "##,
    );
    let last = seen["last"].as_u64().unwrap();
    assert_eq!(seen["steps"], json!([0, 1, 11, 10, 110, last]));
    let number = |name: &str| seen[name].as_f64().unwrap();
    assert!((4096.0..4200.0).contains(&number("pageSpan")), "{seen}");
    assert!(number("wholeSpan") > 1.4e14, "{seen}");
    assert_eq!(number("fewSteps"), 4.0);
    assert_eq!(
        seen["whole"],
        json!({"low": 0, "high": 1, "from": 0, "to": last + 1})
    );
    for text in ["tip", "detail"] {
        let text = seen[text].as_str().unwrap();
        assert!(text.contains("flags rd") && text.contains(" #"), "{text}");
    }
    assert_eq!(seen["clicked"], true);
    assert!(number("pinched") < 0.6 && number("wheeled") < 0.7, "{seen}");
    assert!(number("areas") > 10.0);
    assert_eq!(
        (&seen["theme"], &seen["now"]),
        (&json!("light"), &json!("dark"))
    );
    assert_eq!(seen["dark"], "rgb(16 19 23)");
    assert_eq!(seen["nameless"], json!([]));
}

/// On a telephone nothing sticks out sideways, and what is worked by fingers is large enough for them.
#[test]
#[ignore = "needs Chromium: cargo xtask test --tier pages"]
fn a_telephone_is_wide_enough() {
    let (page, _) = marks(&[]);
    let seen = ask(
        &page,
        (500, 900),
        r##"
        samara.draw();
        return {
            wide: document.documentElement.scrollWidth - innerWidth,
            small: [...document.querySelectorAll("button")].filter(button => button.offsetHeight < 36).length,
            drawn: samara.drawn().length,
            inside: pixel(document.getElementById("areas"), 300, 200) !== "rgb(0 0 0)",
        };
        "##,
    );
    assert!(seen["wide"].as_i64().unwrap() <= 0, "{seen}");
    assert_eq!((&seen["small"], &seen["inside"]), (&json!(0), &json!(true)));
    assert!(seen["drawn"].as_u64().unwrap() > 30);
}
