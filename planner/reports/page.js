"use strict";
// What a click on a step does in all pictures, and how the graph is moved. Without it the page is complete, but still.
(() => {
  const data = JSON.parse(document.getElementById("plan").textContent);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  function choose(step) {
    all(".on").forEach((e) => e.classList.remove("on"));
    const kernel = data.steps[step].kernel;
    const stands = data.kernels[kernel].steps;
    all("[data-step]").forEach((e) => {
      const k = Number(e.dataset.step);
      const first = e.closest(".roofline") && k === stands[0];
      if (k === step || first || (e.classList.contains("step") && drawnFor(e, step))) e.classList.add("on");
    });
    all("path.edge").forEach((e) => {
      if (all(`.step.on[data-step="${e.dataset.from}"], .step.on[data-step="${e.dataset.to}"]`, e.ownerSVGElement).length) {
        e.classList.add("on");
      }
    });
    all(".panel").forEach((e) => { e.hidden = Number(e.dataset.kernel) !== kernel; });
    fill(step);
  }

  // Of equal layers one is drawn: it stands for the steps of all of them.
  function drawnFor(e, step) {
    const svg = e.closest("svg");
    return svg.dataset.folds !== undefined && folded(JSON.parse(svg.dataset.folds), step) === Number(e.dataset.step);
  }

  function folded(folds, step) {
    for (const [first, length, times] of folds) {
      if (step >= first && step < first + length * times) return first + ((step - first) % length);
    }
    return step;
  }

  function fill(step) {
    const s = data.steps[step];
    document.getElementById("chosen").textContent = `Step ${step}: ${s.name}`;
    const facts = {
      "computes": s.funcs.join(", "), "reads": s.inputs.join(", ") || "nothing", "makes": [...s.outputs, ...s.updates].join(", "),
      "kernel": `${s.kernel}, of ${data.kernels[s.kernel].steps.length} step${data.kernels[s.kernel].steps.length > 1 ? "s" : ""}`,
    };
    const list = document.getElementById("facts");
    list.replaceChildren();
    for (const [name, value] of Object.entries(facts)) {
      const dt = document.createElement("dt"), dd = document.createElement("dd");
      dt.textContent = name;
      dd.textContent = value;
      list.append(dt, dd);
    }
  }

  document.addEventListener("click", (event) => {
    const found = event.target.closest("[data-step]");
    if (found && !dragged) choose(Number(found.dataset.step));
  });
  document.addEventListener("keydown", (event) => {
    const found = event.target.closest && event.target.closest(".step");
    if (found && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      choose(Number(found.dataset.step));
    }
  });

  // Moving and zooming ---------------------------------------------------------------------------------------------
  let dragged = false;

  function zoomable(svg) {
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    let view = [0, 0, width, height];
    const show = () => svg.setAttribute("viewBox", view.map((x) => x.toFixed(2)).join(" "));
    // What is seen of a picture at first: all of it, or of a long one the upper part in a size that can be read.
    const fit = (whole) => {
      const r = svg.getBoundingClientRect();
      const seen = r.width ? (width * r.height) / r.width : height;
      const tall = Math.min(height, Math.max(seen, (r.height || 640) * 1.25));
      view = whole ? [0, 0, width, height] : [0, 0, width, tall];
      show();
    };
    const zoom = (factor, x, y) => {
      const scale = Math.min(Math.max(factor, (view[3] * factor < 60 ? 60 / view[3] : 0)), (8 * Math.max(width, height)) / view[3]);
      view = [x - (x - view[0]) * scale, y - (y - view[1]) * scale, view[2] * scale, view[3] * scale];
      show();
    };
    const point = (event) => {
      const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      return [p.x, p.y];
    };
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      zoom(Math.exp(event.deltaY * 0.0012), ...point(event));
    }, { passive: false });
    let held = null;
    svg.addEventListener("pointerdown", (event) => { held = [event.clientX, event.clientY]; dragged = false; });
    addEventListener("pointermove", (event) => {
      if (!held) return;
      const m = svg.getScreenCTM(), dx = event.clientX - held[0], dy = event.clientY - held[1];
      if (!dragged && Math.hypot(dx, dy) < 4) return;
      dragged = true;
      svg.classList.add("moving");
      view[0] -= dx / m.a;
      view[1] -= dy / m.d;
      held = [event.clientX, event.clientY];
      show();
    });
    addEventListener("pointerup", () => { held = null; svg.classList.remove("moving"); });
    const middle = () => [view[0] + view[2] / 2, view[1] + view[3] / 2];
    const stage = svg.closest(".stage");
    const act = { in: () => zoom(1 / 1.4, ...middle()), out: () => zoom(1.4, ...middle()), fit: () => fit(true), top: () => fit(false) };
    all("button[data-act]", stage).forEach((b) => b.addEventListener("click", () => {
      if (getComputedStyle(svg).display !== "none") act[b.dataset.act]();
    }));
    fit(false);
    return () => fit(false);
  }

  const fits = new Map(all("svg.zoomable").map((svg) => [svg, zoomable(svg)]));
  const fold = document.getElementById("fold");
  if (fold) {
    fold.addEventListener("click", () => {
      const open = fold.getAttribute("aria-pressed") !== "true";
      fold.setAttribute("aria-pressed", String(open));
      fold.textContent = open ? "equal layers once" : "all steps";
      all("svg.graph").forEach((svg) => {
        svg.toggleAttribute("hidden", (svg.dataset.folds === undefined) !== open);
        fits.get(svg)();
      });
    });
  }

  const costly = data.steps.reduce((best, s, k) => ((s.cycles || 0) > (data.steps[best].cycles || 0) ? k : best), 0);
  if (data.steps.length) choose(costly);
  document.documentElement.dataset.ready = "yes";
})();
