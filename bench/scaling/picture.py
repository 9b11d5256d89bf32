"""docs/scaling.svg: accuracy against cost, a point per method with its intervals on both axes, and the front of each
size."""
import math

WIDTH, HEIGHT, PANEL, TALL, LEFT, TOP, GAP = 1040, 920, 430, 340, 64, 60, 80
COLOURS = {"S": "#36c", "L": "#c63", "X": "#666", "xs": "#092", "1m": "#a3a"}


class Panel:
    def __init__(self, title, axis, points, at):
        """points: (series, method, (cost, low, high), (accuracy, low, high), beaten)."""
        self.title, self.axis, self.points = title, axis, points
        self.left, self.top = LEFT + at % 2 * (PANEL + GAP), TOP + at // 2 * (TALL + 100)
        costs = [c for _, _, cost, _, _ in points for c in cost]
        self.x_low, self.x_high = math.log10(min(costs)) - 0.1, math.log10(max(costs)) + 0.25
        self.y_low = math.floor(min(a[1] for *_, a, _ in points) * 10) / 10
        self.y_high = math.ceil(max(a[2] for *_, a, _ in points) * 10) / 10
        self.taken, self.lines = [], []

    def x(self, cost):
        return self.left + (math.log10(cost) - self.x_low) / (self.x_high - self.x_low) * PANEL

    def y(self, accuracy):
        return self.top + (self.y_high - accuracy) / (self.y_high - self.y_low) * TALL

    def axes(self):
        yield f"<rect x='{self.left}' y='{self.top}' width='{PANEL}' height='{TALL}' fill='none' stroke='#888'/>"
        yield f"<text x='{self.left}' y='{self.top - 10}' font-weight='bold'>{self.title}</text>"
        middle = f"{self.left + PANEL / 2:.0f}"
        yield f"<text x='{middle}' y='{self.top + TALL + 34}' text-anchor='middle'>{self.axis}</text>"
        for percent in range(round(self.y_low * 100), round(self.y_high * 100) + 1, 10):
            at = self.y(percent / 100)
            yield (f"<path d='M{self.left} {at:.1f}h{PANEL}' stroke='#ddd'/>"
                   f"<text x='{self.left - 6}' y='{at + 4:.1f}' text-anchor='end'>{percent} %</text>")
        for decade in range(math.floor(self.x_low), math.ceil(self.x_high) + 1):
            for cost in (k * 10.0 ** decade for k in (1, 2, 5)):
                if self.x_low <= math.log10(cost) <= self.x_high:
                    x, y = f"{self.x(cost):.1f}", self.top + TALL + 16
                    yield (f"<path d='M{x} {self.top}v{TALL}' stroke='#eee'/>"
                           f"<text x='{x}' y='{y}' text-anchor='middle'>{cost:g}</text>")

    def front(self, size):
        """From cheap to costly, each better than all before: a staircase."""
        path, best, ends = "", -1, []
        for _, _, cost, accuracy, _ in sorted((p for p in self.points if p[0].split(":")[0] == size),
                                              key=lambda p: p[2][0]):
            if accuracy[0] > best:
                best = accuracy[0]
                x, y = self.x(cost[0]), self.y(best)
                path += f"H{x:.1f}V{y:.1f}" if path else f"M{x:.1f} {y:.1f}"
                ends.append((x, y))
        for (x, y), (right, up) in zip(ends, [*ends[1:], (self.left + PANEL, ends[-1][1])]):
            self.lines += [(x, y - 1, right - x, 2), (right - 1, up, 2, y - up)]
        return f"<path fill='none' stroke='{COLOURS[size]}' stroke-dasharray='5 3' d='{path}H{self.left + PANEL}'/>"

    def free(self, box, beside):
        x, y, w, h = box
        inside = self.left <= x and x + w <= self.left + PANEL and self.top <= y and y + h <= self.top + TALL
        return inside and all(x >= a + c or a >= x + w or y >= b + d or b >= y + h for a, b, c, d in beside)

    def label(self, x, y, text):
        """The first place near a point that is free of fronts, too; else the first that lies on no point and no
        name."""
        w, h = len(text) * 7, 12
        tries = [(x + side, y - h / 2 + up * ring * 4, w, h) for ring in range(20) for side in (7, -7 - w)
                 for up in (-1, 1)]
        box = (next((t for t in tries[:36] if self.free(t, self.taken + self.lines)), None) or
               next((t for t in tries if self.free(t, self.taken)), tries[0]))
        self.taken.append(box)
        return box[0], box[1] + h - 3

    def draw(self):
        yield from self.axes()
        for size in dict.fromkeys(p[0].split(":")[0] for p in self.points):
            yield self.front(size)
        at = [(self.x(cost[0]), self.y(accuracy[0])) for _, _, cost, accuracy, _ in self.points]
        self.taken, names = [(x - 5, y - 5, 10, 10) for x, y in at], []
        for (series, method, cost, accuracy, beaten), (x, y) in zip(self.points, at):
            colour, text = COLOURS[series.split(":")[0]], method + (", PRM" if ":prm" in series else "")
            low, high = self.y(accuracy[1]), self.y(accuracy[2])
            yield (f"<path d='M{x:.1f} {high:.1f}V{low:.1f}M{self.x(cost[1]):.1f} {y:.1f}"
                   f"H{self.x(cost[2]):.1f}' stroke='{colour}' stroke-opacity='.5'/>")
            shape = (f"<rect x='{x - 3.2:.1f}' y='{y - 3.2:.1f}' width='6.4' height='6.4'" if ":prm" in series else
                     f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.5'")
            tag = shape[1:shape.index(" ")]
            name = f"{series.split(':')[0]} {text}"
            yield (f"{shape} stroke='{colour}' fill='{'#fff' if beaten else colour}'><title>{name}: "
                   f"{100 * accuracy[0]:.1f} % ({100 * accuracy[1]:.1f} to {100 * accuracy[2]:.1f})</title></{tag}>")
            tx, ty = self.label(x, y, name)
            names.append(f"<text x='{tx:.1f}' y='{ty:.1f}' fill='{colour}' stroke='#fff' stroke-width='3' "
                         f"paint-order='stroke'>{name}</text>")
        yield from names


def svg(title, panels):
    """panels: (title, axis, points), two in a row."""
    lines = ["<svg xmlns='http://www.w3.org/2000/svg' "
             f"viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}' "
             "font-family='sans-serif' font-size='11'>", "<rect width='100%' height='100%' fill='#fff'/>",
             f"<text x='{LEFT}' y='24' font-size='13'>{title}</text>"]
    for at, panel in enumerate(panels):
        lines += Panel(*panel, at).draw()
    return "\n".join(lines + ["</svg>"]) + "\n"
