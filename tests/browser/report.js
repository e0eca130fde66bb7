// SPDX-License-Identifier: MIT
// Reports in a real browser: node tests/browser/report.js [ATVI]
//
// Needs Chromium (chromium, chromium-browser or google-chrome in PATH, or $CHROMIUM) and the package playwright-core or playwright
// (in $PLAYWRIGHT, a folder with node_modules, in build/npm, where `tools/setup browser` puts it, or where node finds it).
// Where one is missing it says so: SKIP: why.
// A line for each test, ok or not ok, as TAP. SHOTS=DIR keeps screenshots at 1280 and 390 pixels, light and dark.
"use strict";
const { execFileSync, spawn, spawnSync } = require("child_process");
const assert = require("assert");
const fs = require("fs");
const http = require("http");
const os = require("os");
const path = require("path");

const top = path.resolve(__dirname, "../..");
const atvi = path.resolve(process.argv[2] || path.join(top, "build/atvi"));
const shots = process.env.SHOTS;

function skip(why) {
  console.log("SKIP: " + why);
  process.exit(0);
}

function findPlaywright() {
  const places = [process.env.PLAYWRIGHT, path.join(top, "build/npm"), top, process.cwd()].filter(Boolean);
  const root = spawnSync("npm", ["root", "-g"], { encoding: "utf8" });
  if (root.status === 0) places.push(path.dirname(root.stdout.trim()));
  for (const name of ["playwright-core", "playwright"])
    try {
      return require(require.resolve(name, { paths: places }));
    } catch (e) { /* the next */ }
  skip("playwright-core is not installed (tools/setup browser)");
}

function findChromium() {
  if (process.env.CHROMIUM) return process.env.CHROMIUM;
  for (const name of ["chromium", "chromium-browser", "google-chrome"]) {
    const found = spawnSync("sh", ["-c", "command -v " + name], { encoding: "utf8" });
    if (found.status === 0) return found.stdout.trim();
  }
  skip("there is no Chromium (tools/setup browser)");
}

const { chromium } = findPlaywright();
const executablePath = findChromium();
// Root has no sandbox, and nothing may be looked up on a network.
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const work = fs.mkdtempSync(path.join(os.tmpdir(), "atvi-browser-"));
const model = path.join(top, "examples/cold/cold.atvi");
let browser, failed = 0;

// A model with 30 parameters, of which a fit has some 10 000 draws.
function large() {
  const at = [...Array(30).keys()].map(k => k + 1);
  fs.writeFileSync(path.join(work, "large.csv"), "i,y\n" + at.map(k => `${k},${Math.sin(k).toFixed(4)}\n`).join(""));
  fs.writeFileSync(path.join(work, "large.atvi"), at.map(k => `param a${k} ~ normal(0, ${1 + k % 3})\n`).join("") +
    `data "large.csv"\nobserve y ~ normal(${at.map(k => `if i == ${k} then a${k} + 0.3 * a${k % 30 + 1} else `).join("")}0, 0.5)\n`);
  return path.join(work, "large.atvi");
}

// An emulator of a small ensemble, and a fit with it.
function emulated() {
  const frac = x => x - Math.floor(x), rows = [...Array(40).keys()].map(i => [frac(i * 0.754877666), frac(i * 0.569840291)]);
  const time = [...Array(12).keys()], flow = (a, b, t) => 3 * a + Math.sin(4 * b + 0.3 * t);
  const csv = (name, lines) => fs.writeFileSync(path.join(work, name), lines.map(l => l.join(",")).join("\n") + "\n");
  csv("designs.csv", rows);
  csv("outputs.csv", rows.map(([a, b]) => time.map(t => flow(a, b, t).toFixed(6))));
  csv("obs.csv", [["y"], ...time.map(t => [(flow(0.5, 0.25, t) + 0.3 * Math.sin(t / 2)).toFixed(4)])]);
  fs.writeFileSync(path.join(work, "flow.atvi"), `param a in (0, 1)
param b in (0, 1)
param v ~ invgamma(2, 0.05)
param l ~ gamma(2, 0.5)
param s2 ~ invgamma(2, 0.001)
emulator f {
  inputs a, b
  designs "designs.csv"
  outputs "outputs.csv"
}
data "obs.csv"
observe y ~ emulator(f) + exponential(v, l) + white(s2)
`);
  return path.join(work, "flow.atvi");
}

// Contrast of two colours as WCAG defines it.
function contrast(a, b) {
  const light = c => {
    const [r, g, b] = c.match(/[\d.]+/g).slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
}

// A page that collects everything that goes wrong on it.
async function open(url, opts = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...opts });
  const page = await context.newPage();
  page.wrong = [];
  page.on("console", m => { if (m.type() === "error" || m.type() === "warning") page.wrong.push(m.text()); });
  page.on("pageerror", e => page.wrong.push(e.message));
  page.on("request", r => { if (!/^(file|data):/.test(r.url()) && !r.url().startsWith("http://127.0.0.1:")) page.wrong.push("asks for " + r.url()); });
  await page.goto(url);
  return page;
}

const url = dir => "file://" + path.join(work, dir, "report.html");

// Every figure has shapes, a name and a size; nothing is wider than the page.
async function sound(page, least = 5) {
  const figures = await page.$$eval("svg[role=img]", list => list.map(s => {
    const r = s.getBoundingClientRect();
    return { id: s.id, name: s.getAttribute("aria-label"), shapes: s.querySelectorAll("path[d],text,rect").length, width: r.width, height: r.height };
  }));
  assert(figures.length >= least, "figures: " + figures.length);
  for (const f of figures) {
    assert(f.name && f.name.length > 10, f.id + " has no name");
    assert(f.shapes >= 5, f.id + " has " + f.shapes + " shapes");
    const hidden = f.width === 0; /* the other of two widths */
    assert(hidden || (f.width > 100 && f.height > 50), f.id + " is " + f.width + " x " + f.height);
  }
  const [inner, all] = await page.evaluate(() => [document.documentElement.clientWidth, document.documentElement.scrollWidth]);
  assert(all <= inner + 1, "the page is " + all + " pixels wide in a window of " + inner);
  const levels = await page.$$eval("h1,h2,h3", list => list.map(h => +h.tagName[1]));
  assert.strictEqual(levels[0], 1);
  levels.reduce((a, b) => { assert(b <= a + 1, "headings out of order"); return b; });
  assert.deepStrictEqual(page.wrong, []);
}

const tests = {
  async "every width, light and dark"() {
    for (const dir of ["atvi", "nuts", "flow", "flow-runs", "compared"])
      for (const width of [1280, 390])
        for (const colorScheme of ["light", "dark"]) {
          const page = await open(url(dir), { colorScheme, viewport: { width, height: 900 } });
          await sound(page, dir === "compared" ? 2 : 5);
          if (shots) await page.screenshot({ path: path.join(shots, `${dir}-${width}-${colorScheme}.png`), fullPage: true });
          const [paper, words, lines] = await page.evaluate(() => {
            const colour = (list, what) => [...new Set([...list].filter(e => e.getClientRects().length).map(e => getComputedStyle(e)[what]))];
            return [getComputedStyle(document.body).backgroundColor,
              [...colour(document.querySelectorAll("main p, main li, th, td, summary, nav a, dt, dd, caption, main a"), "color"), ...colour(document.querySelectorAll("svg text"), "fill")],
              colour(document.querySelectorAll("svg .s-main, svg .s-data, svg .s-held, svg .s-warn"), "stroke").filter(c => c !== "none")];
          });
          for (const c of words) assert(contrast(c, paper) >= 4.5, `${dir} ${colorScheme}: text of ${c} on ${paper}`); /* WCAG AA */
          for (const c of lines) assert(contrast(c, paper) >= 3, `${dir} ${colorScheme}: lines of ${c} on ${paper}`);
          await page.context().close();
        }
  },
  async "without script"() {
    const page = await open(url("atvi"), { javaScriptEnabled: false });
    assert(await page.locator("#pairs-plot path").count() > 10);
    assert(!(await page.locator("#pairs-chips").isVisible()));
    await page.context().close();
  },
  async "values under the pointer"() {
    const page = await open(url("atvi"));
    await page.locator("#s0").scrollIntoViewIfNeeded();
    const box = await page.locator("#s0").boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    const tip = await page.locator(".tip").innerText();
    assert.match(tip, /time 10/);
    assert.match(tip, /observed 17/); /* the cold's data on day 10 */
    assert.deepStrictEqual(page.wrong, []);
    await page.context().close();
  },
  async "a series can be zoomed and back"() {
    const page = await open(url("atvi"));
    await page.locator("#s0").scrollIntoViewIfNeeded();
    const box = await page.locator("#s0").boundingBox(), y = box.y + box.height / 2;
    const labels = () => page.$$eval("#s0 .ax text", l => l.map(t => t.textContent).join(" "));
    const before = await labels();
    await page.mouse.move(box.x + 0.4 * box.width, y);
    await page.mouse.down();
    await page.mouse.move(box.x + 0.6 * box.width, y, { steps: 4 });
    await page.mouse.up();
    assert.notStrictEqual(await labels(), before);
    assert.match(await page.getAttribute("#s0 .zoom", "transform"), /scale\([3-7]/);
    await page.locator("figure:has(#s0) .reset:visible").click();
    assert.strictEqual((await labels()).split(" ")[0], before.split(" ")[0]);
    await page.context().close();
  },
  async "a switch between linear and log axes, for each section"() {
    let page = await open(url("atvi"));
    const seen = id => page.locator("#" + id).isVisible(), labels = id => page.$$eval(`#${id} text`, l => l.map(t => t.textContent));
    const chips = section => page.locator(`#${section} [data-scales] button`);
    assert.strictEqual(await page.locator("[data-scales]").count(), 2); /* data, forecast */
    assert(await seen("s0") && !(await seen("s0l")) && await seen("f0") && !(await seen("f0l")));
    await chips("data").nth(1).click();
    assert(!(await seen("s0")) && await seen("s0l"), "the log axis is not shown");
    assert(await seen("f0") && !(await seen("f0l")), "the forecast changed too");
    assert.strictEqual(await chips("data").nth(1).getAttribute("aria-pressed"), "true");
    assert.strictEqual(await chips("data").nth(0).getAttribute("aria-pressed"), "false");
    assert((await labels("s0l")).includes("10") && (await labels("s0l")).includes("1"), await labels("s0l"));
    assert.match(await page.locator("#data .log .note").allInnerTexts().then(l => l.join(" ")), /at or below zero (is|are) not shown/);
    /* values under the pointer are those of the linear figure, and a range that was chosen holds for both */
    await page.locator("#s0l").scrollIntoViewIfNeeded();
    const box = await page.locator("#s0l").boundingBox(), y = box.y + box.height / 2;
    await page.mouse.move(box.x + box.width / 2, y);
    assert.match(await page.locator(".tip").innerText(), /time 10/);
    await page.mouse.move(box.x + 0.4 * box.width, y);
    await page.mouse.down();
    await page.mouse.move(box.x + 0.6 * box.width, y, { steps: 4 });
    await page.mouse.up();
    await chips("data").nth(0).click();
    assert(await seen("s0") && !(await seen("s0l")));
    assert.match(await page.getAttribute("#s0 .zoom", "transform"), /scale\([3-7]/);
    assert.deepStrictEqual(page.wrong, []);
    await page.context().close();
    page = await open(url("atvi"), { javaScriptEnabled: false });
    assert(await seen("s0") && !(await seen("s0l")) && !(await page.locator("[data-scales]").first().isVisible()), "a switch without script");
    await page.context().close();
  },
  async "the forecast goes on after the data"() {
    const page = await open(url("atvi"));
    const section = await page.locator("#forecast").innerText();
    assert.match(section, /median[\s\S]*50 %[\s\S]*95 %[\s\S]*end of the data/);
    await page.locator("#f0").scrollIntoViewIfNeeded();
    const box = await page.locator("#f0").boundingBox();
    await page.mouse.move(box.x + 0.97 * box.width, box.y + box.height / 2);
    const tip = await page.locator(".tip").innerText();
    assert.match(tip, /time 30/);
    assert.match(tip, /median .*\n? ?50 % from .* to .*\n? ?95 % from .* to/);
    assert(!/observed/.test(tip), tip);
    assert.strictEqual(await page.locator("#f0 .zoom path[stroke-dasharray]").count(), 1);
    await page.context().close();
  },
  async "a click on a parameter changes the pairs"() {
    const page = await open(url("atvi"));
    const names = () => page.$$eval("#pairs-plot text[font-weight=bold]", l => l.map(t => t.textContent).filter(s => /[a-z]/i.test(s)).join(" "));
    assert.match(await names(), /beta.*gamma.*S0.*R0/);
    await page.click("#pairs-chips button:has-text('gamma')");
    const after = await names();
    assert(!/gamma/.test(after) && /beta.*S0.*R0/.test(after), after);
    assert.strictEqual(await page.getAttribute("#pairs-chips button:has-text('gamma')", "aria-pressed"), "false");
    await page.click("#pairs-chips button:has-text('gamma')");
    assert.match(await names(), /beta.*gamma.*S0.*R0/);
    assert(await page.locator("#pairs-plot path").count() > 15);
    assert.deepStrictEqual(page.wrong, []);
    await page.context().close();
  },
  async "the report of an emulator names the worst run, and that of a fit shows the simulator alone"() {
    let page = await open(url("flow-runs"));
    assert.match(await page.locator(".verdict .say").innerText(), /emulator/);
    assert.match(await page.locator("#validation").innerText(), /Worst predicted runs[\s\S]*run \d+/);
    assert(await page.locator("#loo path").count() > 60);
    await page.locator("#loo").scrollIntoViewIfNeeded();
    const box = await page.locator("#loo").boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    assert.match(await page.locator(".tip").innerText(), /the simulator's .*\n? ?the emulator's/);
    assert.match(await page.locator("#inputs").innerText(), /The most important input is a/);
    await page.context().close();
    page = await open(url("flow"));
    assert.match(await page.locator("#data .legend").innerText(), /the simulator alone/);
    assert.strictEqual(await page.locator("#s0 .zoom path.s-c3").count(), 1);
    assert.match(await page.locator("#emulator").innerText(), /an emulator of 40 runs/);
    assert.match(await page.locator("#cost").innerText(), /the simulator was not run/);
    await page.context().close();
  },
  async "the model's text shows that it scrolls, where it does"() {
    for (const width of [1280, 390]) {
      const page = await open(url("atvi"), { viewport: { width, height: 900 } });
      const text = page.locator("pre", { hasText: "param beta" }).first();
      const [more, hint] = await text.evaluate(e => [e.scrollWidth > e.clientWidth + 1, getComputedStyle(e, "::before").content]);
      assert.strictEqual(more, width === 390);
      assert.strictEqual(hint, more ? '"scrolls sideways"' : "none");
      await page.context().close();
    }
  },
  async "methods compared lead to their reports"() {
    const page = await open(url("compared"));
    await page.click("#methods tbody a:has-text('ram')");
    await page.waitForSelector("#convergence");
    assert.match(page.url(), /compared\/ram\/report\.html$/);
    assert.deepStrictEqual(page.wrong, []);
    await page.context().close();
  },
  async "thirty parameters stay small and quick"() {
    const size = fs.statSync(path.join(work, "large/report.html")).size;
    assert(size < 3e6, size + " bytes");
    const draws = fs.readFileSync(path.join(work, "large/draws.csv"), "utf8").split("\n").filter(l => l && !l.startsWith("#")).length - 1;
    assert(draws >= 10000, draws + " draws");
    const page = await open(url("large"));
    await sound(page);
    const chips = page.locator("#pairs-chips button");
    assert.strictEqual(await chips.count(), 30);
    for (const k of [3, 17, 29]) {
      const spent = await chips.nth(k).evaluate(b => { const t = performance.now(); b.click(); document.body.offsetHeight; return performance.now() - t; });
      assert(spent < 500, `a click took ${spent} ms`);
    }
    await page.context().close();
  },
  async "it prints: light, without what needs a pointer, nothing cut off"() {
    const page = await open(url("atvi"), { colorScheme: "dark" });
    await page.emulateMedia({ media: "print" });
    for (const what of ["nav", "#pairs-chips"]) assert(!(await page.locator(what).first().isVisible()), what + " is printed");
    const paper = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert(contrast(paper, "rgb(255,255,255)") < 1.1, "paper of " + paper);
    await page.setViewportSize({ width: 718, height: 1000 }); /* A4 less margins */
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert(wide <= 719, "the page is " + wide + " pixels wide on paper");
    const pdf = await page.pdf({ format: "A4" });
    assert(pdf.length > 20000);
    assert.deepStrictEqual(page.wrong, []);
    await page.context().close();
  },
  async "a page that is served updates itself and becomes the report"() {
    const run = spawn(atvi, ["fit", model, "--method", "ram", "--ess", "60000", "--max-iter", "3000000", "--out", path.join(work, "live"), "--live"], { stdio: ["ignore", "ignore", "pipe"] });
    const ended = new Promise(done => run.on("exit", done));
    const address = await new Promise((done, fail) => {
      let text = "";
      run.stderr.on("data", d => { text += d; const m = text.match(/http:\/\/127\.0\.0\.1:\d+\//); if (m) done(m[0]); });
      run.on("exit", () => fail(new Error("ended without an address: " + text)));
    });
    await refuses(address);
    const page = await open(address);
    assert.match(await page.locator("h1").innerText(), /cold/i);
    const seen = new Set();
    for (let k = 0; k < 60 && seen.size < 3 && await page.locator("#live").count(); k++) {
      seen.add(await page.locator("#live-detail").innerText().catch(() => ""));
      await page.waitForTimeout(250);
    }
    run.kill("SIGINT");
    await page.waitForSelector("#parameters", { timeout: 15000 });
    assert(seen.size >= 2, "it never changed");
    await sound(page);
    await ended;
    await page.context().close();
  },
  async "watch serves a finished fit"() {
    const run = spawn(atvi, ["watch", path.join(work, "atvi")], { stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    run.stderr.on("data", d => { said += d; });
    const address = await new Promise(done => run.stdout.on("data", d => done(String(d).trim())));
    const page = await open(address);
    await sound(page);
    await refuses(address);
    run.kill("SIGINT");
    assert.strictEqual(await new Promise(done => run.on("exit", done)), 0);
    assert(!said.includes("results"), "it writes no results: " + said);
    await page.context().close();
  },
  async "names cannot run scripts"() {
    const text = fs.readFileSync(path.join(work, "atvi/report.html"), "utf8");
    const evil = path.join(work, "evil.html");
    fs.writeFileSync(evil, text.replace("</h1>", "</h1><img src=x onerror='window.bad=1'><script>window.bad=1</script>"));
    const page = await open("file://" + evil);
    assert.strictEqual(await page.evaluate(() => window.bad), undefined);
    await page.context().close();
  },
};

// Nothing but / and /state, and only under its own name.
async function refuses(address) {
  const port = new URL(address).port;
  const status = (where, host, method = "GET") => new Promise((done, fail) => {
    const r = http.request({ host: "127.0.0.1", port, path: where, method, headers: { host } }, a => { a.resume(); done(a.statusCode); });
    r.on("error", fail);
    r.end();
  });
  const own = "127.0.0.1:" + port;
  assert.strictEqual(await status("/", own), 200);
  assert.strictEqual(await status("/state", own), 200);
  for (const where of ["/draws.csv", "/../fit.json", "/%2e%2e/fit.json", "/state?x", "//", "/report.html"]) assert.strictEqual(await status(where, own), 404);
  assert.strictEqual(await status("/", own, "POST"), 404);
  assert.strictEqual(await status("/", "evil.example:" + port), 404);
  assert.strictEqual(await status("/state", "evil.example"), 404);
}

async function prepare() {
  execFileSync(atvi, ["fit", model, "--out", path.join(work, "atvi"), "--quiet"], { stdio: "ignore" });
  execFileSync(atvi, ["predict", path.join(work, "atvi"), "--times", "21:30", "--quiet"], { stdio: "ignore" });
  execFileSync(atvi, ["fit", model, "--method", "nuts", "--chains", "4", "--holdout", "day > 14", "--out", path.join(work, "nuts"), "--quiet"], { stdio: "ignore" });
  execFileSync(atvi, ["compare", model, "--methods", "atvi,ram", "--out", path.join(work, "compared")], { stdio: "ignore" });
  execFileSync(atvi, ["fit", large(), "--method", "nuts", "--ess", "12000", "--out", path.join(work, "large"), "--quiet"], { stdio: "ignore" });
  execFileSync(atvi, ["emulate", emulated(), "--runs", path.join(work, "flow-runs")], { stdio: "ignore" });
  execFileSync(atvi, ["fit", path.join(work, "flow.atvi"), "--runs", path.join(work, "flow-runs"), "--out", path.join(work, "flow"), "--quiet"], { stdio: "ignore" });
}

(async () => {
  try {
    await prepare();
  } catch (e) {
    console.log("not ok 1 the reports to look at\n" + e.stack);
    fs.rmSync(work, { recursive: true, force: true });
    process.exit(1);
  }
  browser = await chromium.launch({ executablePath, args });
  let number = 0;
  for (const name in tests)
    try {
      number++;
      await tests[name]();
      console.log(`ok ${number} ${name}`);
    } catch (e) {
      failed++;
      console.log(`not ok ${number} ${name}\n${e.stack}`);
    }
  await browser.close();
  fs.rmSync(work, { recursive: true, force: true });
  process.exit(failed ? 1 : 0);
})();
