"use strict";
(() => {
  const specs = JSON.parse(document.getElementById("specs").textContent);
  const ink = "var(--ink)", quiet = "var(--quiet)", rule = "var(--rule)";
  const font = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
  const config = {
    background: "transparent",
    font,
    view: { stroke: "transparent" },
    axis: {
      labelColor: quiet, titleColor: quiet, gridColor: rule, domainColor: rule, tickColor: rule,
      titleFontWeight: 500, titleFontSize: 12, labelFontSize: 11, tickCount: 6, gridOpacity: 0.6,
    },
    legend: { labelColor: ink, titleColor: ink, labelFontSize: 12, symbolStrokeWidth: 3, rowPadding: 3 },
    text: { color: ink },
  };
  const options = { renderer: "svg", actions: false, config, tooltip: { theme: "page" } };
  // What is only for screens is not printed, open or not.
  const unfolded = new Set();
  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("details:not([open])")) {
      if (folded.closest(".on-screen")) continue;
      folded.open = true;
      unfolded.add(folded);
    }
  });
  addEventListener("afterprint", () => {
    for (const folded of unfolded) folded.open = false;
    unfolded.clear();
  });
  // A table that goes on beyond the edge says so: in words, and by fading while there is more.
  const regions = [...document.querySelectorAll(".scroll")];
  const mark = (region) => {
    const hidden = region.scrollWidth - region.clientWidth;
    region.toggleAttribute("data-wide", hidden > 1);
    region.toggleAttribute("data-more", hidden - region.scrollLeft > 1);
  };
  const sizes = new ResizeObserver((entries) => entries.forEach((entry) => mark(entry.target)));
  for (const region of regions) {
    mark(region);
    sizes.observe(region);
    region.addEventListener("scroll", () => mark(region), { passive: true });
  }
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const folded = target && target.closest("details:not([open])");
    if (folded) {
      folded.open = true;
      target.scrollIntoView();
    }
  };
  addEventListener("hashchange", reveal);
  reveal();
  // A chart is as wide as its place, which may have had no width while it was folded.
  for (const folded of document.querySelectorAll("details")) {
    folded.addEventListener("toggle", () => dispatchEvent(new Event("resize")));
  }
  const drawn = Object.entries(specs).map(([anchor, spec]) => {
    const place = document.getElementById(`chart-${anchor}`);
    return vegaEmbed(place, spec, options).then(() => { place.dataset.drawn = "yes"; });
  });
  Promise.all(drawn).then(
    () => { document.documentElement.dataset.charts = "drawn"; },
    (error) => { console.error("a chart could not be drawn", error); },
  );
})();
