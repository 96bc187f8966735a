package main

import (
	"fmt"

	"github.com/stretchr/testify/assert"
)

// The chapters of the story that TestConsole plays. Each begins and ends with a
// cluster at rest.

// led waits until a newer term than the last one has a leader.
func (s *screen) led(after int) {
	s.t.Helper()
	s.until(fmt.Sprintf(`Number(document.getElementById('term').textContent) > %d && document.getElementById('leader').textContent.startsWith('meta-')`, after))
}

func (s *screen) killsTheLeader() {
	leader, term := s.text("leader"), s.number("term")
	assert.Contains(s.t, s.on(leader, "kill"), fmt.Sprintf("It leads term %d", term))
	s.until(fmt.Sprintf(`document.getElementById('term').textContent === '%d'`, term+1))
	s.until(fmt.Sprintf(`document.querySelector('[data-node=%q]').className.includes('down')`, leader))
	what := s.settled("kill " + leader)
	assert.Regexp(s.t, fmt.Sprintf(`term %d, leaderless for [0-9.]+ m?s`, term+1), what)
	assert.Contains(s.t, what, "missing 0")
	s.picture("console-failover.png", ".terms")
	s.on(leader, "start")
	s.settled("start " + leader)
}

func (s *screen) drains() {
	s.until(`document.querySelector('[data-node=data-2]').textContent.includes('8')`)
	s.js(`window.phases = new Set(); new MutationObserver(all => all.forEach(m => window.phases.add(m.target.className.split(' ')[1]))).observe(document.getElementById('slots'), {attributes: true, subtree: true, attributeFilter: ['class']})`)
	assert.Contains(s.t, s.on("data-2", "drain"), "hands its")
	s.until(`document.querySelector('[data-node=data-2]').textContent.includes('blacklisted')`)
	s.picture("console-drain.png", "main > .slots")
	s.until(`![...document.querySelectorAll('#slots i')].some(i => i.textContent === '2')`)
	assert.True(s.t, eval[bool](s, `window.phases.size > 0`), "the cells have changed")
	assert.Contains(s.t, s.settled("drain data-2"), "unreadable for")
	s.on("data-2", "restore")
	s.until(`[...document.querySelectorAll('#slots i')].some(i => i.textContent === '2')`)
}

func (s *screen) freezesTheLeader() {
	leader, term := s.text("leader"), s.number("term")
	s.on(leader, "freeze")
	s.led(term)
	s.until(fmt.Sprintf(`document.querySelector('[data-node=%q]').textContent.includes('frozen')`, leader))
	s.on(leader, "thaw")
	s.until(fmt.Sprintf(`document.querySelector('[data-node=%q]').textContent.includes('follows')`, leader))
}

// cutsFromTheDatabase cuts the leader off until another meta leads, and heals the
// cut.
func (s *screen) cutsFromTheDatabase() {
	leader, term := s.text("leader"), s.number("term")
	s.choose(leader)
	s.js(`document.querySelector('#node-actions select').value = 'db'`)
	assert.Contains(s.t, s.on(leader, "cut"), "let nothing pass")
	s.until(`document.querySelector('#wires .cut')`)
	s.led(term)
	assert.Contains(s.t, s.press("#cluster-actions [data-do=heal]"), "mend "+leader)
	s.until(`!document.querySelector('#wires .cut')`)
	s.until(fmt.Sprintf(`document.querySelector('[data-node=%q]').textContent.includes('follows')`, leader))
}

func (s *screen) resigns() {
	leader, term := s.text("leader"), s.number("term")
	assert.Contains(s.t, s.on(leader, "resign"), "The leader: ")
	s.led(term)
	assert.NotEqual(s.t, leader, s.text("leader"))
	assert.Regexp(s.t, `leaderless for [0-9.]+ m?s`, s.settled("resign "+leader))
}

// loads raises the load and lowers it again.
func (s *screen) loads() {
	s.press("#cluster-actions [data-do=load-up]")
	s.until(`document.getElementById('level').textContent.startsWith('level 2')`)
	s.press("#cluster-actions [data-do=load-down]")
	s.until(`document.getElementById('level').textContent.startsWith('level 1')`)
}

func (s *screen) playsAScenario() {
	s.js(`document.getElementById("scenario").value = "f05-leader-cut-from-the-database"`)
	s.press("#cluster-actions [data-do=scenario]")
	s.until(`document.querySelectorAll('#play-axis circle.done').length > 0`)
	s.patience(`document.getElementById('play-name').textContent.endsWith('passed')`)
}

// playsAStorm plays a storm until two of its steps are on the axis, and ends it.
func (s *screen) playsAStorm() {
	s.js(`document.getElementById("seed").value = "14"`)
	assert.Contains(s.t, s.press("#cluster-actions [data-do=storm]"), "storm")
	s.until(`document.getElementById('play-name').textContent.includes('storm')`)
	s.until(`document.querySelectorAll('#play-axis circle:not(.done)').length > 5`)
	s.until(`document.querySelectorAll('#play-axis circle.done').length > 1 && document.querySelectorAll('#play-steps li').length > 1`)
	s.press("#cluster-actions [data-do=scenario-stop]")
	s.until(`document.getElementById('play-name').textContent.endsWith('stopped')`)
	s.settled("heal all")
	s.until(`document.querySelectorAll('.node[data-state=ready]').length === 9`)
}
