// Draws the figures of a report from the JSON tree in #data, filters them, and sorts and saves tables.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const state = { hidden: new Set(), query: "", phase: null };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const percent = (value) => (value === null ? null : Math.round(1e4 * 100 * value) / 1e4);
  const narrow = () => window.innerWidth < 640;
  const HEAT_LIGHT = [[0, "#fffbe6"], [0.35, "#a6d8bd"], [0.65, "#2f96b4"], [1, "#0b2a5b"]];
  const HEAT_DARK = [[0, "#1f242c"], [0.35, "#1f5673"], [0.65, "#35a3a3"], [1, "#f2f0a1"]];
  const dark = () => css("--scheme") === "dark";
  const heat = () => (dark() ? HEAT_DARK : HEAT_LIGHT);
  const OLD = "share for old classes", HARDER = "harder half's share";
  const shown = () => data.groups.filter((group, place) => !state.hidden.has(place));
  const value = (id) => { const element = byId(id); return element ? Number(element.value) : 0; };

  function layout(more) {
    const axis = { gridcolor: css("--line"), zerolinecolor: css("--line"), linecolor: css("--line"), automargin: true };
    const base = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: css("--ink"), size: 13 },
      margin: { l: 48, r: 12, t: 24, b: 44 }, hovermode: "closest", showlegend: true,
      legend: { orientation: "h", x: 0, font: { size: 12 }, ...(narrow() ? { yref: "container", y: 0, yanchor: "bottom" } : { y: 1.02, yanchor: "bottom" }) },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--soft"), activecolor: css("--ink") },
      hoverlabel: { bgcolor: css("--tint"), bordercolor: css("--line"), font: { color: css("--ink") } },
    };
    const merged = { ...base, ...more };
    for (const key of Object.keys(merged)) {
      if (/^[xy]axis/.test(key)) merged[key] = { ...axis, ...merged[key], title: { text: merged[key].title || "" } };
    }
    return merged;
  }
  const whole = (count) => ({ tickmode: "linear", tick0: 0, dtick: Math.max(1, Math.ceil(count / 12)) });
  const phaseAxis = (more) => ({ title: "phase", ...whole(Math.max(...data.groups.map((group) => group.accuracy.x.length))), ...more });

  function band(group, series, scale, lowest) {
    const known = series.half.some((half) => half !== null);
    if (!known) return [];
    const edge = (sign) => series.y.map((y, i) => Math.max(lowest, scale * (y + sign * (series.half[i] || 0))));
    return [{
      x: [...series.x, ...series.x.slice().reverse()], y: [...edge(1), ...edge(-1).reverse()], fill: "toself",
      fillcolor: group.colour + "2b", line: { width: 0 }, hoverinfo: "skip", showlegend: false, mode: "lines",
    }];
  }

  function line(group, series, scale, more, unit) {
    const halves = series.half.map((half) => (half === null ? "" : ` ± ${(scale * half).toFixed(2)}`));
    return {
      x: series.x, y: series.y.map((y) => Math.round(1e4 * scale * y) / 1e4), customdata: halves, name: group.name,
      mode: "lines+markers", line: { color: group.colour, dash: group.dash, width: 2 }, marker: { size: 7 },
      hovertemplate: `<b>%{fullData.name}</b><br>phase %{x}: %{y:.2f}${unit}%{customdata}<extra></extra>`, ...more,
    };
  }

  const scenarioOf = (id) => data.scenarios[value(id)];
  const inScenario = (id) => shown().filter((group) => group.scenario === scenarioOf(id));

  const figures = {
    accuracy() {
      const gain = value("view-accuracy") === 1;
      const groups = inScenario("scenario-accuracy").filter((group) => !gain || group.gain);
      const series = (group) => (gain ? group.gain : group.accuracy);
      const bands = groups.flatMap((group) => band(group, series(group), 100, gain ? -Infinity : 0));
      const title = gain ? "accuracy minus static (points)" : "accuracy (%)";
      return [[...bands, ...groups.map((group) => line(group, series(group), 100, {}, gain ? " points" : " %"))],
        layout({ xaxis: phaseAxis(), yaxis: gain ? { title, zerolinecolor: css("--ink") } : { title } })];
    },
    memory() {
      const bytes = value("unit-memory") === 1;
      const unit = bytes ? "kB" : "samples";
      const held = (group) => (bytes ? group.bytes : [group.old, group.new]);
      const groups = inScenario("scenario-memory").filter((group) => held(group));
      const highest = Math.max(bytes ? 0.1 : 1, ...groups.filter((group) => !group.oracle).flatMap((group) => held(group)[0].y));
      const stacked = narrow();
      const traces = groups.flatMap((group) => [["x", "y"], ["x2", "y2"]].flatMap(([x, y], view) => {
        const own = { xaxis: x, yaxis: y, showlegend: view === 0, legendgroup: group.name };
        const fresh = { ...own, showlegend: false, line: { color: group.colour, dash: "dot", width: 2 },
          marker: { size: 7, symbol: "circle-open" } };
        const codecs = group.old.x.map((phase) => (group.codecs[phase] ? `<br>codec ${counted(group.codecs[phase])}` : ""));
        const say = (age) => `<b>%{fullData.name}</b><br>phase %{x}: %{y:.1f} ${unit} per ${age} class%{customdata}%{text}<extra></extra>`;
        const [old, recent] = held(group);
        return [line(group, old, 1, { ...own, line: { color: group.colour, width: 2 }, text: codecs, hovertemplate: say("old") }, ""),
          line(group, recent, 1, { ...fresh, text: codecs, hovertemplate: say("new") }, "")];
      }));
      const [left, right] = stacked ? [[0, 1], [0, 1]] : [[0, 0.46], [0.56, 1]];
      return [traces, layout({
        xaxis: phaseAxis({ domain: left, anchor: "y" }), xaxis2: phaseAxis({ domain: right, anchor: "y2" }),
        yaxis: { title: `${unit} per class`, rangemode: "tozero", domain: stacked ? [0.58, 1] : [0, 1], anchor: "x" },
        yaxis2: { title: `${unit} per class (enlarged)`, range: [0, 1.25 * highest], domain: stacked ? [0, 0.42] : [0, 1], anchor: "x2" },
      })];
    },
    decisions() {
      const groups = inScenario("scenario-decisions").filter((group) => group.share.x.length);
      const splits = groups.some((group) => group.split.x.length);
      const parts = [...(data.codecs.length ? ["codec"] : []), OLD, ...(splits ? [HARDER] : [])];
      const traces = groups.flatMap((group) => parts.map((title, place) => {
        const id = place ? place + 1 : "";
        const own = { xaxis: `x${id}`, yaxis: `y${id}`, showlegend: place === 0, legendgroup: group.name };
        if (title !== "codec") return line(group, title === OLD ? group.share : group.split, 1, own, "");
        const phases = Object.keys(group.codecs).map(Number);
        return { ...own, x: phases, y: phases.map((phase) => most(group.codecs[phase])), name: group.name, mode: "lines+markers",
          line: { color: group.colour, dash: group.dash, width: 2, shape: "hvh" }, marker: { size: 7 },
          text: phases.map((phase) => counted(group.codecs[phase])),
          hovertemplate: "<b>%{fullData.name}</b><br>phase %{x}: %{text}<extra></extra>" };
      }));
      return [traces, panels(parts, data.codecs, phaseAxis())];
    },
    path() {
      const policy = data.policies[value("policy-path")];
      const coded = policy && policy.codecs.length > 0;
      const splits = policy && policy.paths.some((path) => path.steps.some((step) => step.split !== null));
      const parts = [...(coded ? ["codec"] : []), OLD, ...(splits ? [HARDER] : [])];
      const colours = ["#0072B2", "#D55E00", "#009E73"];
      const traces = (policy ? policy.paths : []).flatMap((path, number) => parts.map((title, place) => {
        const id = place ? place + 1 : "", key = { "codec": "codec", [OLD]: "share" }[title] || "split";
        return { x: path.steps.map((_, i) => 50 + 50 * (i + 1) / path.phases), y: path.steps.map((step) => step[key]),
          name: `N = ${path.phases}`, legendgroup: `N = ${path.phases}`, showlegend: place === 0, xaxis: `x${id}`, yaxis: `y${id}`,
          mode: "lines+markers", marker: { size: 11 - 3 * number }, line: { color: colours[number], width: 5 - 1.5 * number },
          hovertemplate: `<b>N = ${path.phases}</b><br>%{x} classes seen: ${title} %{y}<extra></extra>` };
      }));
      return [traces, panels(parts, coded ? policy.codecs : [], { title: "classes seen after the phase" })];
    },
    matrix() {
      const group = data.groups[value("group-matrix")];
      return heatmap(group.matrix.map((row) => row.map((v) => (v === null ? null : percent(v)))),
        "classes of phase", "after phase", "classes of phase %{x}, after phase %{y}: %{z:.2f} %", [0, 100], "accuracy (%)");
    },
    forgetting() {
      const groups = inScenario("scenario-forgetting");
      const traces = groups.map((group) => ({
        type: "bar", x: group.forgetting.map((_, i) => i), y: group.forgetting.map(percent), name: group.name,
        marker: { color: group.colour },
        hovertemplate: "<b>%{fullData.name}</b><br>classes of phase %{x}: %{y:.2f} points lost<extra></extra>",
      }));
      return [traces, layout({ xaxis: phaseAxis({ title: "classes of phase" }), yaxis: { title: "forgetting (points)" },
        barmode: "group" })];
    },
    classes() {
      const run = data.runs[value("run-classes")];
      if (!run || !run.classes.length) return [[], layout({ xaxis: {}, yaxis: {} })];
      const phase = Math.min(value("phase-classes"), run.accuracy.length - 1);
      const now = run.accuracy[phase], held = run.held[phase];
      const first = run.classes.map((_, label) => run.accuracy[run.arrival[label]][label]);
      const wanted = (name) => !state.query || name.toLowerCase().includes(state.query);
      const order = now.map((_, label) => label).filter((label) => now[label] !== null && wanted(run.classes[label]))
        .sort((a, b) => first[a] - first[b] || a - b);
      const names = order.map((label) => run.classes[label]);
      const x = order.map((_, place) => place);
      const say = order.map((label) => `<b>${escaped(run.classes[label])}</b><br>at first ${(100 * first[label]).toFixed(2)} %` +
        `<br>now ${(100 * now[label]).toFixed(2)} %<br>${held[label] ?? "no"} samples held<br>since phase ${run.arrival[label]}`);
      const shared = { x, text: say, hovertemplate: "%{text}<extra></extra>", mode: "markers" };
      const many = order.length > (narrow() ? 20 : 60), long = names.some((name) => name.length > 2);
      return [[
        { ...shared, y: order.map((label) => percent(first[label])), name: "after its own phase", mode: "lines",
          line: { color: css("--soft"), width: 1.5, shape: "hvh" } },
        { ...shared, y: order.map((label) => percent(now[label])), name: `after phase ${phase}`,
          marker: { size: many ? 5 : 9, color: order.map((label) => held[label] ?? 0), colorscale: heat(),
            colorbar: bar("samples held"), line: { width: 1, color: css("--soft") } } },
      ], layout({
        xaxis: { title: `${order.length} classes, hardest at first on the left`, showticklabels: !many, tickvals: x, ticktext: names, tickangle: long ? -60 : 0, showgrid: !many },
        yaxis: { title: "accuracy (%)", range: [-3, 103] } })];
    },
    confusion() {
      const run = data.runs[value("run-confusion")];
      if (!run || !run.confusion) return [[], layout({ xaxis: {}, yaxis: {} })];
      if (byId("by-class").checked && run.confusion.classes) {
        const names = run.classes;
        const [traces, look] = heatmap(run.confusion.classes, "predicted", "true", "true %{y}, predicted %{x}: %{z} times", null, "times", false);
        Object.assign(traces[0], { x: names, y: names });
        return [traces, look];
      }
      const phase = Math.min(value("phase-confusion"), run.confusion.phases.length - 1);
      const rows = run.confusion.phases[phase].map((row) => {
        const total = row.reduce((a, b) => a + b, 0) || 1;
        return row.map((count) => Math.round(1e6 * count / total) / 1e4);
      });
      return heatmap(rows, "phase of the predicted class", "phase of the true class",
        "true class of phase %{y}, predicted one of phase %{x}: %{z:.2f} %", [0, 100], "% of the row");
    },
    losses() {
      const run = data.runs[value("run-losses")];
      const epochs = run ? run.losses : [];
      const stages = [...new Set(epochs.map((epoch) => epoch.stage))];
      const palette = data.groups.map((group) => group.colour).concat(["#0072B2", "#D55E00", "#009E73", "#CC79A7"]);
      const traces = stages.map((stage, place) => {
        const parted = (epoch, x) => (x && epochs[x - 1].phase !== epoch.phase ? [{ x: x + 0.5, loss: null }] : []);
        const own = epochs.flatMap((epoch, x) => [...parted(epoch, x), { ...epoch, x: x + 1 }]);
        return {
          x: own.map((epoch) => epoch.x), y: own.map((epoch) => (epoch.stage === stage ? epoch.loss : null)), name: stage,
          mode: "lines+markers", marker: { size: 4 }, line: { color: palette[place], width: 1.8 }, connectgaps: false,
          text: own.map((epoch) => `phase ${epoch.phase}, ${epoch.stage}, epoch ${epoch.epoch}`),
          hovertemplate: "%{text}<br>loss %{y:.4f}<extra></extra>",
        };
      });
      const cuts = epochs.map((epoch, x) => [epoch.phase, x]).filter(([phase, x]) => x && epochs[x - 1].phase !== phase);
      const shapes = cuts.map(([, x]) => ({ type: "line", x0: x + 0.5, x1: x + 0.5, yref: "paper", y0: 0, y1: 1,
        line: { color: css("--line"), dash: "dot", width: 1.5 } }));
      return [traces, layout({ xaxis: { title: "epoch, counted over all phases" }, yaxis: { title: "loss" }, shapes })];
    },
    policy() {
      const policy = data.policies[value("policy-space")];
      if (!policy || !policy.level1_first) return [[], layout({ xaxis: {}, yaxis: {} })];
      const words = (values) => values.map(String);
      const later = policy.level1_change;
      const parts = [{ title: `phase 1: ${OLD}`, x: policy.level1_first.shares, y: policy.level1_first.ratios, z: policy.level1_first.probabilities },
        ...later.changes.map((change, place) => ({ title: `later: ${change ? `change by ${change > 0 ? "+" : ""}${change}` : "no change"}`, x: later.old_shares, y: later.ratios,
          z: later.probabilities.map((row) => row.map((cell) => cell[place])) }))];
      if (policy.level2_first) parts.push({ title: `phase 1: ${HARDER}`, x: policy.level2_first.shares, y: policy.level2_first.splits,
        z: policy.level2_first.splits.map((_, split) => policy.level2_first.probabilities.map((row) => row[split])), second: true });
      const columns = narrow() ? 1 : 3, rows = Math.ceil(parts.length / columns);
      const look = {}, traces = [], annotations = [];
      parts.forEach((part, place) => {
        const column = place % columns, row = Math.floor(place / columns), id = place ? place + 1 : "";
        const width = 1 / columns, height = 1 / rows;
        const x = [column * width + 0.06 * (columns > 1), (column + 1) * width - 0.02], y = [1 - (row + 1) * height + 0.3 * height, 1 - row * height - 0.1 * height];
        look[`xaxis${id}`] = { domain: x, anchor: `y${id}`, type: "category", title: place && !part.second ? "share so far" : part.second ? "share just chosen" : "share" };
        look[`yaxis${id}`] = { domain: y, anchor: `x${id}`, type: "category", title: part.second ? HARDER : "new / old classes" };
        annotations.push({ text: part.title, xref: "paper", yref: "paper", x: x[0], y: y[1], xanchor: "left", yanchor: "bottom", showarrow: false });
        traces.push({ type: "heatmap", x: words(part.x), y: words(part.y), z: part.z, xaxis: `x${id}`, yaxis: `y${id}`, zmin: 0, zmax: 1,
          colorscale: heat(), showscale: place === 0, colorbar: bar("probability"),
          hovertemplate: `${part.title}<br>%{y} / %{x}: probability %{z:.3f}<extra></extra>` });
      });
      return [traces, { ...layout({ ...look, annotations }), height: 250 * rows + 60 }];
    },
    course() {
      const policy = data.policies[value("policy-course")];
      const own = policy ? policy.course : { epoch: [] };
      const parts = [["reward", "reward"], ["entropy", "entropy"], ["grad_norm", "gradient norm"]];
      const look = {};
      const traces = parts.map(([key, title], place) => {
        const id = place ? place + 1 : "";
        look[`yaxis${id}`] = { title, domain: [1 - (place + 1) / 3 + 0.06, 1 - place / 3 - 0.02], anchor: `x${id}` };
        look[`xaxis${id}`] = { title: place === 2 ? "epoch" : "", anchor: `y${id}`, matches: place ? "x" : undefined };
        return { x: own.epoch, y: own[key], name: title, xaxis: `x${id}`, yaxis: `y${id}`, mode: "lines+markers", marker: { size: 5 },
          line: { color: "#0072B2", width: 2 }, hovertemplate: `epoch %{x}: ${title} %{y:.4f}<extra></extra>` };
      });
      return [traces, { ...layout(look), height: 480, showlegend: false }];
    },
  };

  // One plot above the other with a common x axis; the one of codecs has their names, exact ones on top.
  function panels(parts, codecs, axis) {
    const look = {}, share = 1 / parts.length;
    parts.forEach((title, place) => {
      const id = place ? place + 1 : "", last = place === parts.length - 1;
      const top = 1 - place * share, names = { type: "category", categoryorder: "array", categoryarray: codecs.slice().reverse(),
        range: [-0.5, codecs.length - 0.5] };
      look[`yaxis${id}`] = { title, domain: [top - share + (last ? 0 : 0.04), top - 0.04], anchor: `x${id}`,
        ...(title === "codec" ? names : { range: [0, 1.02] }) };
      look[`xaxis${id}`] = { ...axis, title: last ? axis.title : "", anchor: `y${id}`, ...(place ? { matches: "x" } : {}) };
    });
    return { ...layout(look), height: 190 * parts.length + 80 };
  }
  const tally = (names) => names.reduce((found, name) => found.set(name, (found.get(name) || 0) + 1), new Map());
  const most = (names) => [...tally(names)].sort((a, b) => b[1] - a[1])[0][0];
  const counted = (names) => [...tally(names)].map(([name, times]) => (times > 1 ? `${name} x ${times}` : name)).join(", ");

  const bar = (title) => ({ title: { text: title, side: "right" }, thickness: 12, len: 0.9 });

  function heatmap(z, x, y, say, range, unit, numbers = true) {
    const few = numbers && z.length <= 12, size = z.length;
    const ends = (from, to) => (numbers ? { range: [from, to], ...whole(size) } : {});
    return [[{ type: "heatmap", z, colorscale: heat(), hovertemplate: say + "<extra></extra>", hoverongaps: false,
      ...(range ? { zmin: range[0], zmax: range[1] } : {}), colorbar: bar(unit) }, ...(few ? [numbersOn(z)] : [])],
    layout({ xaxis: { title: x, constrain: "domain", showgrid: false, zeroline: false, ...ends(-0.5, size - 0.5) },
      yaxis: { title: y, showgrid: false, zeroline: false, ...(numbers ? ends(size - 0.5, -0.5) : { autorange: "reversed" }) } })];
  }

  // The library's own labels are grey on both ends of the scale; these are black or white, whichever reads better there.
  function numbersOn(z) {
    const cells = z.flatMap((row, y) => row.map((value, x) => ({ x, y, value }))).filter((cell) => cell.value !== null && cell.value !== undefined);
    const bright = (value) => (dark() ? value > 51 : value < 73);
    return { type: "scatter", mode: "text", x: cells.map((cell) => cell.x), y: cells.map((cell) => cell.y), hoverinfo: "skip", showlegend: false,
      text: cells.map((cell) => cell.value.toFixed(1)), textfont: { size: 12, color: cells.map((cell) => (bright(cell.value) ? "#000000" : "#ffffff")) } };
  }

  const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const drawn = new Set();
  // An explicit list: by default newer versions of the library have a button that sends the chart away.
  const buttons = [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]];
  const config = { responsive: true, displaylogo: false, modeBarButtons: buttons, displayModeBar: "hover" };

  function draw(name) {
    const element = byId(`figure-${name}`);
    if (!element) return;
    drawn.add(name);
    const [traces, look] = figures[name]();
    const named = traces.filter((trace) => trace.type !== "heatmap" && trace.showlegend !== false && look.showlegend).length;
    const below = narrow() && named > 1 ? 20 * Math.ceil(named / 2) : 0;
    const tall = (look.height || (narrow() && name === "memory" ? 620 : 420)) + below;
    element.style.height = `${tall}px`;
    Plotly.react(element, traces, { ...look, height: tall }, config);
    element.dataset.drawn = "yes";
    if (name === "confusion") pairs();
  }
  const redraw = () => drawn.forEach(draw);

  function pairs() {
    const body = byId("pairs");
    const run = data.runs[value("run-confusion")];
    if (body) body.innerHTML = ((run && run.confusion && run.confusion.pairs) || []).map((pair) =>
      `<tr>${pair.map((cell, place) => `<td${place < 2 ? ' class="word"' : ""}>${escaped(cell)}</td>`).join("")}</tr>`).join("");
  }

  function phases(select, count) {
    const before = select.value;
    select.innerHTML = Array.from({ length: count }, (_, i) => `<option value="${i}">${i}</option>`).join("");
    select.value = before !== "" && Number(before) < count ? before : String(count - 1);
  }

  function setUp() {
    for (const name of ["classes", "confusion"]) {
      const run = byId(`run-${name}`), phase = byId(`phase-${name}`);
      if (!run) continue;
      const size = () => { const own = data.runs[value(run.id)];
        phases(phase, name === "classes" ? own.accuracy.length : own.confusion.phases.length); };
      size();
      run.addEventListener("change", () => { size(); draw(name); });
    }
    document.querySelectorAll("[data-draws]").forEach((element) =>
      element.addEventListener("change", () => draw(element.dataset.draws)));
    document.querySelectorAll("[data-group]").forEach((box) => box.addEventListener("change", () => {
      const place = Number(box.dataset.group);
      if (box.checked) state.hidden.delete(place); else state.hidden.add(place);
      rows();
      redraw();
    }));
    const search = byId("search");
    if (search) search.addEventListener("input", () => { state.query = search.value.trim().toLowerCase(); draw("classes"); });
    byId("scheme").addEventListener("click", () => {
      document.documentElement.dataset.scheme = dark() ? "light" : "dark";
      redraw();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    let width = window.innerWidth;
    window.addEventListener("resize", () => { if ((width < 640) !== narrow()) redraw(); width = window.innerWidth; });
    document.querySelectorAll("[data-save]").forEach((button) => button.addEventListener("click", () => {
      const name = button.dataset.figure;
      if (!drawn.has(name)) draw(name);
      Plotly.downloadImage(byId(`figure-${name}`), { format: button.dataset.save, filename: `remem-${name}`, width: 1000, height: Math.max(520, parseInt(byId(`figure-${name}`).style.height)), scale: 2 });
    }));
  }

  function rows() {
    document.querySelectorAll("tr[data-of]").forEach((row) => { row.hidden = state.hidden.has(Number(row.dataset.of)); });
  }

  function sortable(table) {
    table.querySelectorAll("thead th").forEach((head, column) => {
      const button = head.querySelector("button");
      if (!button) return;
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const key = (row) => { const text = row.cells[column].textContent; const number = parseFloat(text); return Number.isNaN(number) ? text : number; };
        const sorted = [...table.tBodies[0].rows].sort((a, b) => {
          const [left, right] = [key(a), key(b)];
          const order = typeof left === typeof right ? (left < right ? -1 : left > right ? 1 : 0) : typeof left === "number" ? -1 : 1;
          return up ? order : -order;
        });
        table.tBodies[0].append(...sorted);
      });
    });
  }

  function csv(table) {
    const cell = (text) => (/[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);
    return [...table.rows].filter((row) => !row.hidden).map((row) => [...row.cells].map((one) => cell(one.textContent.trim())).join(",")).join("\n") + "\n";
  }

  document.querySelectorAll("table").forEach(sortable);
  document.querySelectorAll("[data-csv]").forEach((button) => button.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv(byId(button.dataset.csv))], { type: "text/csv" }));
    link.download = `${button.dataset.csv}.csv`;
    link.click();
  }));
  setUp();
  window.rememReport = { draw, data, csv };
  const watcher = new IntersectionObserver((entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
    watcher.unobserve(entry.target);
    draw(entry.target.id.replace("figure-", ""));
  }), { rootMargin: "200px" });
  document.querySelectorAll(".plot").forEach((element) => watcher.observe(element));
})();
