import { launch, serve, watch } from "./site.mjs";
const site = "/tmp/labs-site";
const labs = process.argv[2].split(","), combos = process.argv[3].split(",");
const server = await serve(site), browser = await launch("/usr/bin/chromium");
for (const combo of combos) {
  const [w, scheme] = combo.split("-");
  const context = await browser.newContext({ viewport: { width: +w, height: 900 } });
  const page = await watch(context, server.base, (k, t) => console.log(combo, k, t));
  for (const lab of labs) {
    await page.goto(`${server.base}/book/labs/${lab}.html`, { waitUntil: "load" });
    await page.evaluate((s) => (document.documentElement.dataset.theme = s), scheme);
    await page.waitForTimeout(1200);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (over > 0) console.log(lab, combo, "overflow", over);
    await page.screenshot({ path: `/tmp/shots/${lab}-${combo}.png`, fullPage: true });
  }
  await context.close();
}
await browser.close(); server.close();
