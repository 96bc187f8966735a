package supervisor

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Embedded is the Config.DB that starts a devdb beside the cluster.
const Embedded = "embedded"

// Config says what cluster to run. A zero duration or number that is passed on
// to the processes leaves their own default in force.
type Config struct {
	// Dir is the cluster's folder, made when it is missing. One cluster each.
	Dir string `json:"dir"`
	// Bin is the folder that holds the programs meta, session, data and devdb.
	Bin string `json:"bin"`
	// Tool is the path of the program conclave, for the clients at work; needed
	// when Clients is above zero only.
	Tool string `json:"tool,omitempty"`
	// Metas, Sessions and Datas are how many processes of each role run.
	Metas    int `json:"metas"`
	Sessions int `json:"sessions"`
	Datas    int `json:"datas"`
	// Clients is how many publishers, and as many subscribers, are kept at work.
	Clients int `json:"clients,omitempty"`

	// AnyPorts leaves the preferred ports to others: for clusters that nobody
	// looks for.
	AnyPorts bool `json:"anyPorts,omitempty"`

	// DB is Embedded or the DSN of a MySQL server that is there already.
	DB string `json:"db"`
	// The rest is handed to the metas.
	Slots     int           `json:"slots,omitempty"`
	Replicas  int           `json:"replicas,omitempty"`
	Profile   string        `json:"profile,omitempty"`
	Takeover  string        `json:"takeover,omitempty"`
	Lease     time.Duration `json:"lease,omitempty"`
	NodeLease time.Duration `json:"nodeLease,omitempty"`
	// Token, when not empty, is asked for by every process and shown to it.
	Token string `json:"token,omitempty"`

	// Restart starts again, this long after its end, whatever ended without
	// being asked to; 0 leaves it down.
	Restart time.Duration `json:"restart,omitempty"`
	// StopWait is how long one process may take over its graceful end before it
	// is killed. Default 15 s.
	StopWait time.Duration `json:"stopWait,omitempty"`

	// Trace, when not empty, is a folder in which every node writes what it claims
	// about itself, as NAME.trace.
	Trace string `json:"trace,omitempty"`
	// Detour, when set, is asked for every process that listens where others are
	// told that it does, and from which address of this machine it dials; empty
	// answers change nothing. A network with faults stands between them this way.
	Detour func(name, listens string) (told, dialFrom string, err error) `json:"-"`

	Logger hclog.Logger `json:"-"`
}

// DefaultConfig is the cluster of the demo: three metas, two sessions, three
// data nodes and a database.
func DefaultConfig() Config {
	return Config{Dir: ".conclave", Metas: 3, Sessions: 2, Datas: 3, DB: Embedded, StopWait: 15 * time.Second}
}

// ErrConfig is met when a Config cannot be run; its message names the field.
var ErrConfig = errors.New("wrong configuration")

// Validate names the first field that cannot be, and why.
func (c Config) Validate() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
	}
	for _, n := range []struct {
		name string
		n    int
	}{{"meta-nodes", c.Metas}, {"session-nodes", c.Sessions}, {"data-nodes", c.Datas}, {"clients", c.Clients}} {
		if n.n < 0 || n.n > 99 {
			return wrong("%s is %d: want 0 to 99", n.name, n.n)
		}
	}
	switch {
	case c.Dir == "":
		return wrong("the cluster's folder is not named")
	case c.Metas == 0:
		return wrong("meta-nodes is 0: a cluster needs at least one meta")
	case c.Slots < 0 || bits.OnesCount(uint(c.Slots)) > 1 || c.Slots > 1<<14:
		return wrong("slots is %d: want a power of two up to 16384", c.Slots)
	case c.Replicas < 0:
		return wrong("replicas is %d: want at least 1", c.Replicas)
	case c.Takeover != "" && c.Takeover != "witness" && c.Takeover != "lease":
		return wrong("takeover is %q: want witness or lease", c.Takeover)
	case c.Profile != "" && c.Profile != "conclave" && c.Profile != "sofa":
		return wrong("profile is %q: want conclave or sofa", c.Profile)
	case c.DB == "":
		return wrong("db is empty: want %s or a DSN", Embedded)
	case c.Lease < 0 || c.NodeLease < 0 || c.Restart < 0 || c.StopWait < 0:
		return wrong("lease, node-lease and restart must not be below zero")
	}
	return nil
}

// programs lists the programs that this cluster needs, by path, and names the
// first that is missing.
func (c Config) programs() error {
	need := map[string]int{"meta": c.Metas, "session": c.Sessions, "data": c.Datas, "devdb": 0}
	if c.DB == Embedded {
		need["devdb"] = 1
	}
	for _, name := range []string{"meta", "session", "data", "devdb"} {
		if need[name] == 0 {
			continue
		}
		if _, err := os.Stat(filepath.Join(c.Bin, name)); err != nil {
			return fmt.Errorf("the program %q is not in %s, beside the tool: build all of them with `make build`", name, c.Bin)
		}
	}
	return nil
}
