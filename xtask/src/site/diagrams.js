// Draws the diagrams of a page. The script for it is large, so pages without a diagram do not load it.
(() => {
  const sources = document.querySelectorAll("code.language-mermaid");
  if (sources.length === 0) return;
  const script = document.createElement("script");
  script.src = `${path_to_root}mermaid.min.js`;
  script.onload = () => {
    for (const source of sources) {
      const diagram = document.createElement("pre");
      diagram.className = "mermaid";
      diagram.textContent = source.textContent;
      source.closest("pre").replaceWith(diagram);
    }
    const isDark = ["coal", "navy", "ayu"].some((name) => document.documentElement.classList.contains(name));
    mermaid.initialize({ startOnLoad: false, theme: isDark ? "dark" : "default" });
    mermaid.run();
  };
  document.head.append(script);
})();
