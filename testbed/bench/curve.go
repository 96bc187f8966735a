package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Growth is the result of the growth curves.
type Growth struct {
	Version string    `json:"version"`
	At      time.Time `json:"at"`
	TookMs  int64     `json:"tookMs"`
	Machine Machine   `json:"machine"`
	Curves  []Curve   `json:"curves"`
}

// Curve shows how figures change with a size.
type Curve struct {
	Name    string   `json:"name"` // one of CurveNames
	What    string   `json:"what"`
	Columns []Column `json:"columns"`
	Plots   []Plot   `json:"plots"`
	Points  []Point  `json:"points"`
}

// Column is a figure that points of a curve have.
type Column struct {
	Name string `json:"name"` // the key in Point.Values
	What string `json:"what"` // the head of the column
	Unit string `json:"unit,omitempty"`
}

// Columns that several curves have.
var (
	columnConnections   = Column{Name: "connections", What: "CONNECTIONS"}
	columnRegistrations = Column{Name: "registrations", What: "REGISTRATIONS"}
	columnDatas         = Column{Name: "datas", What: "DATA NODES"}
	columnSessions      = Column{Name: "sessions", What: "SESSIONS"}
	columnRate          = Column{Name: "rate", What: "RATE", Unit: "per s"}
	columnRatio         = Column{Name: "ratio", What: "RATIO"}
	columnP50           = Column{Name: "p50Ms", What: "P50", Unit: "ms"}
	columnP99           = Column{Name: "p99Ms", What: "P99", Unit: "ms"}
	columnLost          = Column{Name: "lost", What: "BOUNCED"}
	columnGone          = Column{Name: "clientsGone", What: "GONE"}
	columnElections     = Column{Name: "elections", What: "ELECTIONS"}
	columnEvictions     = Column{Name: "evictions", What: "EVICTIONS"}
	columnMetaMiB       = Column{Name: "metaMiB", What: "METAS", Unit: "MiB"}
	columnSessionMiB    = Column{Name: "sessionMiB", What: "SESSIONS", Unit: "MiB"}
	columnDataMiB       = Column{Name: "dataMiB", What: "DATA", Unit: "MiB"}
)

// Plot is a graph of columns of a curve. It has a line for each value of By.
type Plot struct {
	What string `json:"what"`
	X    string `json:"x"`
	Y    string `json:"y"`
	By   string `json:"by,omitempty"` // the column that separates the lines; "": one line for each target
}

// Point is one measurement: the sizes and figures of its curve by column. What
// could not be measured has no value.
type Point struct {
	Target string             `json:"target"`
	Values map[string]float64 `json:"values"`
	TookMs int64              `json:"tookMs"`
	Error  string             `json:"error,omitempty"` // why the point failed; Values has what was measured before
}

// Write prints a table for each curve.
func (g Growth) Write(w io.Writer) {
	for i, c := range g.Curves {
		if i > 0 {
			fmt.Fprintln(w)
		}
		c.write(w)
	}
	fmt.Fprintf(w, "\n%s, %d CPUs, %s, conclave %s, %s; took %s\n", g.Machine.OS, g.Machine.CPUs, g.Machine.Go, g.Version,
		g.At.Format(time.RFC3339), (time.Duration(g.TookMs) * time.Millisecond).Round(time.Second))
}

// WriteJSON writes the curves as one document.
func (g Growth) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(g)
}

func (c Curve) write(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n", c.Name, c.What)
	head := []string{"TARGET"}
	for _, col := range c.Columns {
		head = append(head, col.Head())
	}
	rows := [][]string{append(head, "")}
	for _, p := range c.Points {
		row := []string{p.Target}
		for _, col := range c.Columns {
			row = append(row, p.Cell(col))
		}
		if p.Error != "" {
			p.Error = "FAILED: " + p.Error
		}
		rows = append(rows, append(row, p.Error))
	}
	writeColumns(w, rows, func(column int) bool { return column >= 1 && column <= len(c.Columns) })
}

// Head returns the head of the column, with its unit.
func (c Column) Head() string {
	if c.Unit == "" {
		return c.What
	}
	return c.What + " " + c.Unit
}

// Cell returns the value of a column, "-" if the point has none.
func (p Point) Cell(c Column) string {
	v, ok := p.Values[c.Name]
	if !ok {
		return "-"
	}
	return number(v)
}

// Failed returns how many points failed.
func (g Growth) Failed() (n int) {
	for _, c := range g.Curves {
		for _, p := range c.Points {
			if p.Error != "" {
				n++
			}
		}
	}
	return n
}
