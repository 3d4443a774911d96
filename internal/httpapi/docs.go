package httpapi

import (
	"net/http"

	"github.com/swaggest/swgui"
	"github.com/swaggest/swgui/v5emb"

	document "lksms/api"
)

// forgetCredentials removes what the page kept of credentials when it still did so: anybody at that browser could read them there.
const forgetCredentials = `<script>localStorage.removeItem("authorized")</script>`

// mountDocs serves Swagger UI, from the binary, and the document in both forms (S0.16).
func (s *Server) mountDocs(mux *http.ServeMux) {
	ui := v5emb.NewHandlerWithConfig(swgui.Config{
		Title: "LKSMS", BasePath: "/docs/",
		SwaggerJSON: "/openapi.yaml", // keeps the order of operations and examples, which JSON loses
		SettingsUI:  map[string]string{"persistAuthorization": "false", "displayRequestDuration": "true", "tryItOutEnabled": "true"},
		AppendHead:  forgetCredentials,
	})
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		body, err := contractAsJSON()
		if err != nil {
			s.fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body) // a caller that has gone cannot be told
	})
	mux.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(document.YAML)
	})
	mux.HandleFunc("GET /docs/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", docsPolicy)
		ui.ServeHTTP(w, r)
	})
	mux.Handle("GET /docs", http.RedirectHandler("/docs/", http.StatusFound))
	mux.Handle("GET /{$}", http.RedirectHandler("/docs/", http.StatusFound))
}
