package push_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"lksms/internal/app"
	"lksms/internal/testkit/apptest"
)

func TestServersShareOneToken(t *testing.T) {
	var options app.Options
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) {
		apptest.WithSecrets(o)
		options = *o
	})
	other, err := app.New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	p := apptest.NewProvider(t)
	var tokens atomic.Int64
	p.Does(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cgi-bin/stable_token" {
			tokens.Add(1)
			time.Sleep(time.Second) // meanwhile the other server claims a message and needs a token, too
			_, _ = io.WriteString(w, `{"access_token":"token","expires_in":7200}`)
			return
		}
		_, _ = io.WriteString(w, `{"errcode":0,"msgid":1}`)
	})
	b.AddSender(map[string]any{
		"sender_no": "mini", "channel": "wechat", "kind": "wechat", "config": map[string]any{"baseUrl": p.URL, "appId": "wx", "appSecret": "s"},
	})
	b.App.Pusher.Start()
	other.Pusher.Start()
	apptest.Eventually(t, "both servers drive the sender", func() bool {
		return b.Count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%SendersDriven%'") >= 2
	})
	for i := range 6 { // one server fetches a token; the other server sends the next message
		b.SendOnce(map[string]any{"business_id": i, "receiver_openid": "o"})
	}
	apptest.Eventually(t, "all are sent", func() bool { return b.Count("SELECT count(*) FROM tasks WHERE status = 2") == 6 })
	if n := tokens.Load(); n != 1 {
		t.Errorf("%d tokens were fetched", n)
	}
}
