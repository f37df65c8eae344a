// Columns of numbers: how their values lie within the states of the page, which are intervals or single values.
"use strict";

// The share of the values of an interval below x: a line between any two of its quantiles.
function shareBelow(points, x, room) {
  const last = points.length - 1;
  if (x <= points[0] + room) return 0;
  if (x >= points[last] - room) return 1;
  const k = points.findIndex((point) => point > x);
  return (k - 1 + (x - points[k - 1]) / (points[k] - points[k - 1])) / last;
}

// The share of each state of a number that lies between two ends.
function sharesBetween({ quantiles, half }, low, high) {
  const room = 1e-6 * half; // for rounding
  return quantiles.map((points) => {
    if (!points.length) return 0; // absent
    if (points.length === 1) return points[0] > low && points[0] < high ? 1 : 0;
    return +Math.max(0, shareBelow(points, high, room) - shareBelow(points, low, room)).toPrecision(9);
  });
}

// The value of a state below which a share of its values lies.
function valueAt(points, share) {
  const at = share * (points.length - 1);
  const k = Math.max(0, Math.min(Math.floor(at), points.length - 2));
  return points.length === 1 ? points[0] : points[k] + (at - k) * (points[k + 1] - points[k]);
}

// The value below which a number lies with a probability, given those of its states.
function quantile({ quantiles }, p, wanted) {
  let left = wanted;
  let s = 0;
  while (s < p.length - 1 && left > p[s] + 1e-12) left -= p[s++];
  return valueAt(quantiles[s], p[s] > 0 ? Math.max(0, Math.min(1, left / p[s])) : 0);
}

// A value in digits that tell it from others at some distance.
function numberText({ unit, step }, x, distance) {
  if (unit) return new Date(Math.round(x * unit) * 1000).toISOString().slice(0, unit > 1 || step === 86400 ? 10 : 19).replace("T", " ");
  if (x === 0) return "0";
  const digits = Math.floor(Math.log10(distance));
  const text = x.toFixed(Math.max(0, Math.min(15, -Math.min(digits, Math.floor(Math.log10(Math.abs(x))) - 3))));
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

// The mean of a number, and the recorded values between which it lies with a probability of 90%.
function summary(column, states) {
  const { absent, cuts, means, step } = column;
  const missing = absent ? states[means.length] : 0;
  if (missing > 1 - 1e-12) return "absent";
  const p = states.slice(0, means.length).map((x) => x / (1 - missing));
  const distance = (cuts[cuts.length - 1] - cuts[0]) / 100;
  const mean = means.reduce((sum, x, s) => sum + p[s] * x, 0);
  let [low, high] = [0.05, 0.95].map((share) => quantile(column, p, share));
  if (step) [low, high] = [Math.ceil(low / step - 1e-9) * step, Math.floor(high / step + 1e-9) * step];
  if (low > high) low = high = Math.round((low + high) / 2 / step) * step;
  const [middle, first, last] = [mean, low, high].map((x) => numberText(column, x, distance));
  return `${missing > 5e-5 ? `absent ${percent(missing)}, otherwise ` : ""}mean ${middle}, 90% between ${first} and ${last}`;
}

// A random value of a state of a number, within a range that is known.
function drawnValue(column, state, [low, high], random = Math.random) {
  const { cuts, half, quantiles, step } = column;
  const points = quantiles[state];
  if (!points.length) return ""; // absent
  const [first, last] = [low, high].map((x) => shareBelow(points, x, 1e-6 * half));
  const x = valueAt(points, points.length > 1 ? first + random() * (last - first) : 0);
  return numberText(column, step ? Math.round(x / step) * step : x, step || (cuts[cuts.length - 1] - cuts[0]) / 1e4);
}
