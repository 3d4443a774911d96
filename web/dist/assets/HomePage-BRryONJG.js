<<<<<<<< HEAD:web/dist/assets/HomePage-BRryONJG.js
import{F as e,L as t,M as n,et as r,jt as i,k as a,o,w as s}from"./_plugin-vue_export-helper-B3XbXlRC.js";import{t as c}from"./EmptyState-Blcrp2Jt.js";var l={class:`card`},u=t({__name:`HomePage`,setup(t){return(t,u)=>(r(),n(s,null,[u[0]||=a(`h1`,{class:`visually-hidden`},`LKSMS`,-1),a(`div`,l,[e(c,{title:i(o)(`account.nothing.title`),text:i(o)(`account.nothing.text`)},null,8,[`title`,`text`])])],64))}});export{u as default};
========
import{F as e,L as t,M as n,et as r,jt as i,k as a,o,w as s}from"./_plugin-vue_export-helper-A3QopiqL.js";import{t as c}from"./EmptyState-ACcz4sIj.js";var l={class:`card`},u=t({__name:`HomePage`,setup(t){return(t,u)=>(r(),n(s,null,[u[0]||=a(`h1`,{class:`visually-hidden`},`LKSMS`,-1),a(`div`,l,[e(c,{title:i(o)(`account.nothing.title`),text:i(o)(`account.nothing.text`)},null,8,[`title`,`text`])])],64))}});export{u as default};
>>>>>>>> main:web/dist/assets/HomePage-DOsgo7ET.js
