/** Bytes, times and shares as `optimizer/wording/units.py` writes them. */
export function bytesText(size) {
  if (size === null || size === undefined) return "-";
  let left = size;
  for (const unit of ["B", "KiB", "MiB"]) {
    if (Math.abs(left) < 1024) return unit === "B" ? `${fixed(left, 0)} B` : `${fixed(left, 1)} ${unit}`;
    left /= 1024;
  }
  return `${fixed(left, 2)} GiB`;
}

export function timeText(ns) {
  if (ns === null || ns === undefined) return "-";
  for (const [unit, scale] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]]) {
    if (Math.abs(ns) >= scale) return `${fixed(ns / scale, 3)} ${unit}`;
  }
  return `${fixed(ns, 0)} ns`;
}

export function percentText(share) {
  return share === null || share === undefined ? "-" : `${fixed(100 * share, 1)} %`;
}

/** `1 op`, `2,000 ops`. */
export function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** Digits behind the point; as in Python, a tie goes to the even digit. A tie is an odd multiple of 2^-(digits + 1). */
function fixed(value, digits) {
  if (Math.abs((value * 2 ** (digits + 1)) % 2) !== 1) return value.toFixed(digits);
  const down = Math.floor(value * 10 ** digits);
  return ((down % 2 === 0 ? down : down + 1) / 10 ** digits).toFixed(digits);
}
