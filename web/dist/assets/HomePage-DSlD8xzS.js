<<<<<<<< HEAD:web/dist/assets/HomePage-q9GCK5Bd.js
import{F as e,L as t,M as n,et as r,jt as i,k as a,o,w as s}from"./_plugin-vue_export-helper-Brc5CRKa.js";import{t as c}from"./EmptyState-g6Veo7aZ.js";var l={class:`card`},u=t({__name:`HomePage`,setup(t){return(t,u)=>(r(),n(s,null,[u[0]||=a(`h1`,{class:`visually-hidden`},`LKSMS`,-1),a(`div`,l,[e(c,{title:i(o)(`account.nothing.title`),text:i(o)(`account.nothing.text`)},null,8,[`title`,`text`])])],64))}});export{u as default};
========
import{F as e,L as t,M as n,et as r,jt as i,k as a,o,w as s}from"./_plugin-vue_export-helper-D4-_lvJ3.js";import{t as c}from"./EmptyState-DNUh5N9H.js";var l={class:`card`},u=t({__name:`HomePage`,setup(t){return(t,u)=>(r(),n(s,null,[u[0]||=a(`h1`,{class:`visually-hidden`},`LKSMS`,-1),a(`div`,l,[e(c,{title:i(o)(`account.nothing.title`),text:i(o)(`account.nothing.text`)},null,8,[`title`,`text`])])],64))}});export{u as default};
>>>>>>>> 0ae1eaef (Update the built console):web/dist/assets/HomePage-CVYK6b5Y.js
