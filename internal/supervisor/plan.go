package supervisor

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The roles of processes. Those of the cluster have the names that package
// conclave gives them; the database and the clients at work are the tool's.
const (
	roleDB      = "db"
	roleMeta    = "meta"
	roleData    = "data"
	roleSession = "session"
	roleClient  = "client"
)

// preferred are the ports of the original (and of MySQL), taken when free.
var preferred = map[string]int{roleMeta: 9615, roleSession: 9603, roleData: 9622, roleDB: 3306}

// spec is one process to be: everything that a start needs.
type spec struct {
	Name    string   `json:"name"`
	Role    string   `json:"role"`
	Program string   `json:"program"`
	Args    []string `json:"args"`
	Address string   `json:"address,omitempty"` // of its one port; of the db's MySQL port
	Told    string   `json:"told,omitempty"`    // where others are told it is, when that is not Address
}

// told is where others find the process.
func (s spec) told() string { return orElse(s.Told, s.Address) }

// plan lays out the processes of a configuration in the order in which ps shows
// them, and writes the files that they are told of (secrets are never arguments:
// everybody can read those).
func plan(cfg Config, claims *claims) ([]spec, error) {
	ports := newPorts(cfg, claims)
	dir := cfg.Dir
	var common []string
	if cfg.Token != "" {
		path := filepath.Join(dir, "token")
		if err := os.WriteFile(path, []byte(cfg.Token+"\n"), 0o600); err != nil {
			return nil, err
		}
		common = append(common, "--token-file", path)
	}

	var specs []spec
	dsn := cfg.DB
	if dsn == Embedded {
		address, err := ports.take(roleDB)
		if err != nil {
			return nil, err
		}
		db := spec{
			Name: roleDB, Role: roleDB, Program: filepath.Join(cfg.Bin, "devdb"), Address: address,
			Args: []string{"--listen", address, "--file", filepath.Join(dir, "db.sql")},
		}
		if db.Told, _, err = cfg.detour(db.Name, address); err != nil {
			return nil, err
		}
		specs = append(specs, db)
		dsn = "root@tcp(" + db.told() + ")/conclave"
	}
	dsnFile := filepath.Join(dir, "dsn")
	if err := os.WriteFile(dsnFile, []byte(dsn+"\n"), 0o600); err != nil {
		return nil, err
	}

	node := func(role string, i int, more ...string) error {
		address, err := ports.take(role)
		if err != nil {
			return err
		}
		name := role + "-" + strconv.Itoa(i)
		told, from, err := cfg.detour(name, address)
		if err != nil {
			return err
		}
		args := append([]string{"--name", name, "--listen", address}, common...)
		if told != "" {
			args = append(args, "--advertise", told)
		}
		if from != "" {
			args = append(args, "--dial-from", from)
		}
		if cfg.Trace != "" {
			args = append(args, "--trace", filepath.Join(cfg.Trace, name+".trace"))
		}
		specs = append(specs, spec{
			Name: name, Role: role, Program: filepath.Join(cfg.Bin, role), Args: append(args, more...), Address: address, Told: told,
		})
		return nil
	}
	for i := range cfg.Metas {
		if err := node(roleMeta, i+1, metaArgs(cfg, dsnFile)...); err != nil {
			return nil, err
		}
	}
	metas := strings.Join(toldOf(specs, roleMeta), ",")
	for i := range cfg.Datas {
		if err := node(roleData, i+1, memberArgs(cfg, metas)...); err != nil {
			return nil, err
		}
	}
	for i := range cfg.Sessions {
		if err := node(roleSession, i+1, memberArgs(cfg, metas)...); err != nil {
			return nil, err
		}
	}
	return append(specs, clientSpecs(cfg)...), nil
}

// usualNodeLease is what the beats of data and session nodes, a second apart, are for.
const usualNodeLease = 3 * time.Second

// memberArgs are the flags of a data or session node. It must be heard three times in
// a node lease, and asks nobody how long that is.
func memberArgs(cfg Config, metas string) []string {
	args := []string{"--meta", metas}
	if 0 < cfg.NodeLease && cfg.NodeLease < usualNodeLease {
		args = append(args, "--beat", (cfg.NodeLease / 3).String())
	}
	return args
}

// metaArgs are the flags of a meta; what the configuration leaves open is the
// meta's own default (which depends on its profile).
func metaArgs(cfg Config, dsnFile string) []string {
	args := []string{"--dsn-file", dsnFile}
	add := func(flag, value string) { args = append(args, "--"+flag, value) }
	if cfg.Slots > 0 {
		add("slots", strconv.Itoa(cfg.Slots))
	}
	if cfg.Replicas > 0 {
		add("replicas", strconv.Itoa(cfg.Replicas))
	}
	if cfg.Profile != "" {
		add("profile", cfg.Profile)
	}
	if cfg.Takeover != "" {
		add("takeover", cfg.Takeover)
	}
	if cfg.Lease > 0 {
		add("lease", cfg.Lease.String())
	}
	if cfg.NodeLease > 0 {
		add("node-lease", cfg.NodeLease.String())
	}
	return args
}

// clientSpecs are publishers and subscribers at work, so that there is something
// to see in a cluster that was just started.
func clientSpecs(cfg Config) []spec {
	var specs []spec
	add := func(kind string, i int, args ...string) {
		specs = append(specs, spec{
			Name: kind + "-" + strconv.Itoa(i), Role: roleClient, Program: cfg.Tool,
			Args: append([]string{"--dir", cfg.Dir}, args...),
		})
	}
	for i := range cfg.Clients {
		add("publisher", i+1, "publish", "--hold", fmt.Sprintf("demo.echo=10.0.0.%d:8080", i+1))
	}
	for i := range cfg.Clients {
		add("subscriber", i+1, "subscribe", "demo.echo")
	}
	return specs
}

// toldOf lists where others find the processes of a role.
func toldOf(specs []spec, role string) []string {
	var out []string
	for _, s := range specs {
		if s.Role == role {
			out = append(out, s.told())
		}
	}
	return out
}

// detour asks Config.Detour, if there is one.
func (c Config) detour(name, listens string) (told, dialFrom string, err error) {
	if c.Detour == nil {
		return "", "", nil
	}
	return c.Detour(name, listens)
}

// ports picks loopback addresses for one cluster.
type ports struct {
	claims    *claims
	wellKnown bool // all preferred ports were free, and are claimed
	taken     map[int]bool
	next      int // where to look otherwise
}

// newPorts takes the preferred ports only when the whole cluster gets them: one
// of them that is free beside others that are not belongs to a process that was
// killed in somebody else's cluster, and will be wanted back. Others are looked
// for below the range from which the kernel draws the ports of outgoing
// connections, or a node that is started again could find its own in use by
// somebody's connection; from a random place on, so that clusters which start at
// the same moment do not meet.
func newPorts(cfg Config, claims *claims) *ports {
	p := &ports{claims: claims, wellKnown: !cfg.AnyPorts, taken: make(map[int]bool), next: 10000 + rand.IntN(20000)}
	need := map[string]int{roleMeta: cfg.Metas, roleData: cfg.Datas, roleSession: cfg.Sessions}
	if cfg.DB == Embedded {
		need[roleDB] = 1
	}
	for _, role := range slices.Sorted(maps.Keys(need)) { // in one order: of two at once, the first that is refused gives way
		for i := range need[role] {
			p.wellKnown = p.wellKnown && claims.take(preferred[role]+i)
		}
	}
	if !p.wellKnown {
		claims.release()
	}
	return p
}

func (p *ports) take(role string) (string, error) {
	if p.wellKnown {
		for port := preferred[role]; ; port++ {
			if !p.taken[port] {
				return p.took(port), nil
			}
		}
	}
	const tries = 2000
	for range tries {
		if p.next++; !p.taken[p.next] && p.claims.take(p.next) {
			return p.took(p.next), nil
		}
	}
	return "", fmt.Errorf("no free port for a %s: tried %d to %d", role, p.next-tries, p.next)
}

func (p *ports) took(port int) string {
	p.taken[port] = true
	return loopback(port)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func free(port int) bool {
	ln, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	ln.Close()
	return true
}
