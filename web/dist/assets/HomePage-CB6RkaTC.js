<<<<<<<< HEAD:web/dist/assets/HomePage-CB6RkaTC.js
import{E as e,M as t,Ot as n,P as r,Z as i,k as a,o,x as s}from"./_plugin-vue_export-helper-D8HXXFW7.js";import{t as c}from"./EmptyState-Do7tcxRB.js";var l={class:`card`},u=r({__name:`HomePage`,setup(r){return(r,u)=>(i(),a(s,null,[u[0]||=e(`h1`,{class:`visually-hidden`},`LKSMS`,-1),e(`div`,l,[t(c,{title:n(o)(`account.nothing.title`),text:n(o)(`account.nothing.text`)},null,8,[`title`,`text`])])],64))}});export{u as default};
========
import{E as e,M as t,Ot as n,P as r,Z as i,k as a,o,x as s}from"./_plugin-vue_export-helper-UurzBkj_.js";import{t as c}from"./EmptyState-ZrRTo_iW.js";var l={class:`card`},u=r({__name:`HomePage`,setup(r){return(r,u)=>(i(),a(s,null,[u[0]||=e(`h1`,{class:`visually-hidden`},`LKSMS`,-1),e(`div`,l,[t(c,{title:n(o)(`account.nothing.title`),text:n(o)(`account.nothing.text`)},null,8,[`title`,`text`])])],64))}});export{u as default};
>>>>>>>> w-dims:web/dist/assets/HomePage-BDahEC8h.js
