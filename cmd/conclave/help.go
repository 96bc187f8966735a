package main

import (
	"bytes"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// refuseUnknownTopics makes `help` of a command that does not exist an error.
func (a *app) refuseUnknownTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	show := help.Run
	help.Run = nil
	help.RunE = func(cmd *cobra.Command, args []string) error {
		found, rest, err := root.Find(args)
		if err == nil && found.HasSubCommands() {
			err = found.ValidateArgs(rest)
		}
		if err != nil {
			return usageError{err}
		}
		show(cmd, args)
		return nil
	}
}

// showPlainFlags makes help show a flag without a value as it is used: pflag adds
// "[=true|false]" to it.
func showPlainFlags(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		var text bytes.Buffer
		out := root.OutOrStdout()
		root.SetOut(&text)
		help(cmd, args)
		root.SetOut(out)
		const ofBool = "[=true|false]"
		_, _ = io.WriteString(out, strings.ReplaceAll(text.String(), ofBool, strings.Repeat(" ", len(ofBool))))
	})
}

// addGlobals adds the flags that many commands have. They may stand before the
// command, so the root knows all of them.
func (a *app) addGlobals(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&a.dir, "dir", defaultDir, "folder of the local cluster")
	flags.StringSliceVar(&a.metas, "meta", nil, "addresses of the cluster's metas, instead of the local cluster (ADDR,...)")
	flags.BoolVar(&a.asJSON, "json", false, "print JSON: one document, or one per line for streams")
	flags.StringVar(&a.token, "token", "", "token of the cluster (default: that in --dir, or CONCLAVE_TOKEN)")
	flags.StringVar(&a.tokenFile, "token-file", "", "file that contains the token")
	flags.StringVar(&a.tlsDir, "tls-dir", "", "folder with ca.pem, and client.pem and client-key.pem if needed: use TLS (default: CONCLAVE_TLS_DIR, or the local cluster's)")
}

// addExamples adds to each command the examples of its help.
func addExamples(root *cobra.Command) {
	for name, text := range examples {
		cmd, _, err := root.Find(strings.Fields(name))
		if err != nil || commandName(cmd) != name {
			panic("examples of an unknown command: " + name)
		}
		cmd.Example = "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
	}
}

// examples are calls that work as they are written, on the cluster of `conclave
// up`. TestExamples parses them.
var examples = map[string]string{
	"up": `
conclave up                               3 metas, 3 data nodes, 2 sessions and a database, until Ctrl-C
conclave up --detach --clients 2          in the background, with two publishers and two subscribers
conclave up --console                     with a page on which it can be watched and broken
conclave up --tls                         with TLS, by certificates of a CA of its own
conclave up --restart 1s                  killed processes come back by themselves
conclave up --ports 9750                  on ports of your choice, which the folder keeps
conclave up --db 'u:p@tcp(db:3306)/c'     with a MySQL server of yours`,
	"dev": `
conclave dev                              a registry for development in one process, until Ctrl-C
conclave dev --file registry.sql          its configuration and terms are kept
conclave dev --size 3,3,2                 3 metas, 3 data nodes and 2 sessions, all in this process
conclave dev --console=                   without the page`,
	"down": `
conclave down
conclave down --now                       kill -9 instead of a graceful stop`,
	"ps":    "conclave ps",
	"start": "conclave start meta-1",
	"kill": `
conclave kill leader                      kill -9 of the meta leader
conclave kill data-2 -STOP                suspend a process ...
conclave kill data-2 -CONT                ... and resume it`,
	"roll": `
conclave roll
conclave roll --role data`,
	"logs": `
conclave logs meta-1 -f
conclave logs supervisor`,
	"leader": `
conclave leader
conclave leader --after 7 --wait 10s      wait for a leader of a term above 7
conclave leader --meta 10.0.0.1:9615,10.0.0.2:9615`,
	"election": `
conclave election list
conclave election observe meta-1          it no longer competes for the leadership`,
	"elections": "conclave election list              the same under its other name",
	"resign":    "conclave election resign            the same under its other name",
	"election list": `
conclave election list
conclave election list --json`,
	"election resign": `
conclave election resign --dry-run
conclave election resign`,
	"election watch": `
conclave election watch --dsn-file db.dsn --lock nightly
conclave election watch --dsn-file db.dsn --data-center shop --lock nightly --json`,
	"election observe": "conclave election observe meta-1",
	"election join":    "conclave election join meta-1",
	"election force-refresh": `
conclave election force-refresh meta-2 --dry-run
conclave election force-refresh meta-2 --force`,
	"slots": `
conclave slots
conclave slots 17 18                      only these, one row each`,
	"nodes": "conclave nodes --role session",
	"blacklist": `
conclave blacklist add data-1 --reason 'disk is failing'
conclave blacklist list`,
	"blacklist list": "conclave blacklist list",
	"blacklist add": `
conclave blacklist add data-1 --reason 'disk is failing'
conclave blacklist add data-1 --dry-run`,
	"blacklist remove": "conclave blacklist remove data-1",
	"protection":       "conclave protection end",
	"protection end":   "conclave protection end",
	"drain": `
conclave drain data-1                     hand over all its slots while it serves
conclave blacklist remove data-1          let it have slots again`,
	"switch": `
conclave switch list
conclave switch set stop-push on          no lists are pushed until it is off`,
	"switch list": "conclave switch list",
	"switch get":  "conclave switch get push-guard",
	"switch set":  "conclave switch set stop-push on",
	"config": `
conclave config set limits '{"rate": 100}'
conclave config get limits`,
	"config list": "conclave config list",
	"config get":  "conclave config get limits",
	"config set": `
conclave config set limits '{"rate": 100}'
conclave config set limits '{"rate": 100}' --dry-run`,
	"config remove": "conclave config remove limits",
	"events": `
conclave events --since 5m
conclave events -f --type slot            slots as they move
conclave events --node meta-1 --node data-1
conclave events --each --json             each event of each node`,
	"console": `
conclave console                          watch the local cluster at http://127.0.0.1:9700/
conclave console --allow-actions          also break it
conclave console --on compose --allow-actions   the same with the cluster of ` + "`make compose-up`" + `
conclave console --listen 0.0.0.0:9700 --host console.internal`,
	"publish": `
conclave publish demo=10.0.0.1:8080       for the client lease
conclave publish demo=10.0.0.1:8080 --hold`,
	"subscribe": `
conclave subscribe demo
conclave subscribe demo --count 1 --timeout 10s`,
	"get": `
conclave get demo
conclave get demo --json`,
	"services": `
conclave services                         all of the cluster
conclave services shop.                   those whose names begin so
conclave services --address 10.0.0.7      those with a value or a client there`,
	"describe": `
conclave describe demo                    its publishers and subscribers
conclave describe 10.0.0.7                what is registered with or from that address`,
	"clients": `
conclave clients
conclave clients --address 10.0.0.7
conclave clients publisher-1              those with that name`,
	"demo": `
conclave demo
conclave demo --on compose                in containers (first: make image)`,
	"playground": `
conclave playground                       the folder that ` + "`make playground`" + ` has made
conclave playground public/try --listen 127.0.0.1:8080`,
	"chaos": `
conclave chaos list
conclave chaos run f01`,
	"chaos list": `
conclave chaos list
conclave chaos list 'f0*'
conclave chaos list session frozen        those whose name or description has both words`,
	"scenario": `
conclave scenario grammar
conclave scenario check mine.txt`,
	"scenario check":   "conclave scenario check mine.txt f01",
	"scenario grammar": "conclave scenario grammar",
	"chaos run": `
conclave chaos run f01                    kill -9 the leader, again and again
conclave chaos run storm --seed 7         random faults, made from a seed
conclave chaos run f16 f19 --times 20 --parallel 3
conclave chaos run mine.txt --html report.html`,
	"bench": `
conclave bench
conclave bench --only leader-killed --repeat 5
conclave bench --full --report growth.json   growth with registrations, connections and load
conclave bench --full --only registrations,overload --max-registrations 100000 --for 1m`,
	"lab": `
conclave lab elections
conclave lab oversell --buyers 300`,
	"lab elections": `
conclave lab elections
conclave lab elections --rules article-000,article-003 --html report.html`,
	"lab oversell": "conclave lab oversell --buyers 300",
	"migrate": `
conclave migrate --dsn-file admin.dsn     before metas start with a user of fewer rights`,
	"lead": `
conclave lead --dsn-file db.dsn --lock nightly -- ./nightly-job
conclave lead --dsn-file db.dsn --once -- sh -c 'echo term $CONCLAVE_TERM'`,
	"meta":    "conclave meta --name meta-1 --dsn-file db.dsn",
	"data":    "conclave data --name data-1 --meta 127.0.0.1:9615",
	"session": "conclave session --name session-1 --meta 127.0.0.1:9615",
	"devdb":   "conclave devdb --listen 127.0.0.1:3307 --file db.sql",
	"version": "conclave version",
	"certs": `
conclave certs                            for a cluster on this machine, in the folder certs
conclave certs --dir pki --host 10.0.0.1,10.0.0.2,registry.internal`,
}
