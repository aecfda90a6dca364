// Before anything is painted: the theme that was chosen here, if one was. A classic script, for modules run too late.
try {
  const chosen = localStorage.getItem("delayline.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // storage is closed to this page
}
